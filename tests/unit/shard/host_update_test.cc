// The thread on which updates in host memory run. What the updates give: policy_test.cc.
#include "shard/host_update.h"

#include <capstan_catch.h>

#include <stdexcept>

#include "shard/rig.h"

namespace host_update_test {

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;

TEST_CASE("what a rule throws during training ends the next call that needs its result") {
  run_in_process(1, [](Communicator& communicator) {
    RigOptions options;
    options.policy = [](strategy::ShardPolicy& policy) { set_stage(policy, 1, 1); };
    Rig rig(communicator, options);
    rig.micro_step(0, tiny_batch(0));
    rig.rule->set([](std::vector<optimizer::Slice>&) { throw std::runtime_error("a rule"); });
    rig.engine->update(0, {});
    CHECK_THROWS_WITH(rig.runner->forward(tiny_batch(1)), Contains("a rule"));
    // It comes out once, and the next update runs.
    int weights = 0;  // a rule of elements gets each weight by itself, to be cast while it is in the cache
    update_with(rig, [&](std::vector<optimizer::Slice>& slices) { weights += static_cast<int>(slices.size()); });
    CHECK(weights == 8);
  });
}

TEST_CASE("an update in host memory is timed, every element of it") {
  run_in_process(1, [](Communicator& communicator) {
    RigOptions options;
    options.policy = [](strategy::ShardPolicy& policy) { set_stage(policy, 1, 1); };
    Rig rig(communicator, options);
    for (int step = 0; step < 2; ++step) {
      rig.micro_step(0, tiny_batch(step));
      update_with(rig, [](std::vector<optimizer::Slice>&) {});
    }
    const auto times = rig.engine->host_update_times();
    CHECK(times.updates == 2);
    CHECK(times.elements == 8 * 64);
    CHECK(times.total_s >= times.rule_s);
  });
}

}  // namespace host_update_test
