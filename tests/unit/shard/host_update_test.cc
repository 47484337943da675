// The thread on which updates in host memory run. What the updates give: policy_test.cc.
#include "shard/host_update.h"

#include <capstan_catch.h>

#include <stdexcept>

#include "shard/rig.h"

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;

TEST_CASE("a worker does its jobs in order, and what one throws comes out of the next wait") {
  shard::Worker worker;
  std::vector<int> done;
  for (int i = 0; i < 5; ++i) worker.start([&, i] { done.push_back(i); });
  worker.wait();
  CHECK(done == std::vector<int>{0, 1, 2, 3, 4});
  worker.start([] { throw std::runtime_error("a job"); });
  CHECK_THROWS_WITH(worker.wait(), "a job");
  worker.start([&] { done.push_back(5); });
  worker.wait();
  CHECK(done.back() == 5);
}

TEST_CASE("what a rule throws beside training ends the next call that needs its result") {
  run_in_process(1, [](Communicator& communicator) {
    RigOptions options;
    options.policy = [](strategy::ShardPolicy& policy) { set_stage(policy, 1, 1); };
    Rig rig(communicator, options);
    rig.micro_step(0, tiny_batch(0));
    RuleOf rule(0, [](std::vector<strategy::Slice>&) { throw std::runtime_error("a rule"); });
    rig.engine->update(rule, {});
    CHECK_THROWS_WITH(rig.runner->forward(tiny_batch(1)), Contains("a rule"));
  });
}

TEST_CASE("an update in host memory is timed, every element of it") {
  run_in_process(1, [](Communicator& communicator) {
    RigOptions options;
    options.policy = [](strategy::ShardPolicy& policy) { set_stage(policy, 1, 1); };
    Rig rig(communicator, options);
    for (int step = 0; step < 2; ++step) {
      rig.micro_step(0, tiny_batch(step));
      update_with(*rig.engine, 1, [](std::vector<strategy::Slice>&) {});
    }
    const auto times = rig.engine->host_update_times();
    CHECK(times.updates == 2);
    CHECK(times.elements == 8 * 64);
    CHECK(times.total_s >= times.rule_s);
  });
}
