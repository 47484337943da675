// What ranks hold alike must stay alike: each kind of drift, planted on one rank, is found and named.
#include "diagnosis/replica_check.h"

#include <ATen/core/grad_mode.h>
#include <capstan_catch.h>

#include <functional>

#include "checkpoint/scratch.h"
#include "support/families.h"
#include "support/in_stages.h"
#include "support/small_run.h"

namespace replica_check_test {

using namespace capstan;

namespace {

// A step of each rank, then `plant` on the last one, then the comparison: what each rank throws.
std::vector<std::string> faults_in(const std::string& file, int world, const std::function<void(step::Session&)>& plant,
                                   int steps = 1) {
  at::set_num_threads(1);
  plugin::Host host;
  host.add(testing::in_stages());
  std::vector<std::string> faults(static_cast<std::size_t>(world));
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    const int rank = communicator.world().rank;
    setup::JobRequest request;
    request.file = file;
    request.overrides = {"train.precision=bf16", "model.num_heads=2"};
    request.world_size = world;
    request.rank = rank;
    const auto job = testing::job_of(request, host);
    auto session = step::materialise(job, communicator);
    diagnosis::ReplicaCheck check(session, 100);
    step::Step step(session);
    step::Feed feed(job);
    try {
      for (int s = 0; s < steps; ++s) {
        step.run(feed.draw(s), {500.0}, 0.01);
        check.run(s + 1);
      }
      if (rank == world - 1) {
        const at::NoGradGuard no_grad;
        plant(session);
      }
      check.run(steps + 1);
    } catch (const Error& error) {
      faults[static_cast<std::size_t>(rank)] = error.what();
    }
  });
  return faults;
}

std::vector<std::string> faults_after(int world, const std::string& tables,
                                      const std::function<void(step::Session&)>& plant, int steps = 1) {
  return faults_in(testing::small_config(tables), world, plant, steps);
}

void check_all(const std::vector<std::string>& faults, const std::vector<std::string>& words) {
  for (const auto& fault : faults) {
    CHECK(fault == faults.front());
    for (const auto& word : words) CHECK_THAT(fault, Contains(word));
  }
}

// Changes the lowest bit of a tensor's last element.
void flip(const at::Tensor& x) {
  auto* const last = static_cast<char*>(x.data_ptr()) + (x.numel() - 1) * x.element_size();
  *last = static_cast<char>(*last ^ 1);
}

at::Tensor parameter(step::Session& session, const std::string& part) {
  for (const auto& stored : session.engine->stored_boxes()) {
    if (stored.record->name.find(part) != std::string::npos) return stored.value;
  }
  throw std::logic_error("no parameter " + part);
}

const std::string two_way = "[strategy.tensor_parallel]\nsize = 2\n";

}  // namespace

TEST_CASE("a parameter that one data rank changed is named, with ranks, axis and steps") {
  const auto faults = faults_after(3, "", [](auto& session) { flip(parameter(session, "ln_f.weight")); });
  check_all(faults, {"replicas have drifted apart: the parameter of ", "ln_f.weight", "between ranks 0 and 2",
                     "along dp", "after step 2 (they were equal after step 1)", "run.verify_replicas = 0"});
}

TEST_CASE("a norm that one tensor rank changed, and what both hold different parts of") {
  const auto norm = faults_after(2, two_way, [](auto& session) { flip(parameter(session, "ln_1.weight")); });
  check_all(norm, {"the parameter of ", "ln_1.weight", "along tp"});
  // Each rank holds its own half: nothing says what it should be.
  for (const auto& fault : faults_after(2, two_way, [](auto& session) { flip(parameter(session, "mlp.c_fc.weight")); }))
    CHECK(fault.empty());
}

TEST_CASE("a table that the first and the last stage hold, which one of them changed") {
  const auto stages = testing::stages_table("two");
  check_all(faults_after(2, stages, [](auto& session) { flip(parameter(session, "wte.weight")); }),
            {"the parameter of ", "wte.weight", "between ranks 0 and 1", "along pp"});
  for (const auto& fault : faults_after(2, stages, [](auto& session) { flip(parameter(session, "ln_f.weight")); }))
    CHECK(fault.empty());
}

TEST_CASE("optimizer state that one rank changed") {
  const auto faults = faults_after(2, "", [](auto& session) { flip(session.engine->state_boxes().front().states[1]); });
  check_all(faults, {"the optimizer's exp_avg_sq of ", "between ranks 0 and 1"});
}

TEST_CASE("an adapter that one tensor rank changed") {
  const auto faults = faults_after(2, two_way + "[strategy.lora]\nrank = 2\n",
                                   [](auto& session) { flip(parameter(session, "lora_")); });
  check_all(faults, {"the parameter of ", "lora_", "along tp"});
}

TEST_CASE("a router that one expert rank changed, and experts that only one has") {
  const Scratch scratch;
  const auto file = scratch.write("a.toml", "[run]\nseed = 3\ndevice = \"cpu\"\n" +
                                                testing::family_config(testing::families().back(), 130) +
                                                "[data]\nplugin = \"squad\"\ntrain = \"" CAPSTAN_SOURCE_DIR
                                                "/configs/data/mini_squad_train.json\"\ntrain_samples = 70\n"
                                                "max_length = 97\n[train]\nmax_steps = 4\nglobal_batch = 8\n"
                                                "[strategy.expert_parallel]\nsize = 2\n");
  const auto router = faults_in(file, 2, [](auto& session) { flip(parameter(session, "gate.weight")); });
  check_all(router, {"the parameter of ", "gate.weight", "along ep"});
  for (const auto& fault : faults_in(file, 2, [](auto& session) { flip(parameter(session, "experts")); }))
    CHECK(fault.empty());
}

TEST_CASE("a compute copy that one rank changed, where masters are sharded") {
  const auto faults = faults_after(2, "[strategy.zero]\nstage = 1\n", [](auto& session) {
    const auto copies = session.engine->compute_copies();
    REQUIRE_FALSE(copies.empty());
    flip(copies.front().value);
  });
  check_all(faults, {"the compute copy of ", "along dp"});
}

TEST_CASE("what is sharded over all ranks has no replicas; runs that nothing disturbed are equal") {
  const auto nothing = [](step::Session&) {};
  for (const std::string tables : {"", "[strategy.fsdp]\n", "[strategy.zero]\nstage = 2\n",
                                   "[strategy.fsdp]\nmode = \"hybrid_shard\"\nshard_size = 2\n", two_way.c_str()}) {
    INFO(tables);
    for (const auto& fault : faults_after(4, tables, nothing, 3)) CHECK(fault == "");
  }
}

TEST_CASE("it is due after the first steps of a process, then every N") {
  at::set_num_threads(1);
  const auto file = testing::small_config();
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    const auto job = testing::prepare_small(file, {}, 2, communicator.world().rank);
    auto session = step::materialise(job, communicator);
    const diagnosis::ReplicaCheck check(session, 10);
    std::vector<std::int64_t> due;
    for (std::int64_t step = 5; step <= 25; ++step) {
      if (check.due(step, 4)) due.push_back(step);
    }
    if (due != std::vector<std::int64_t>{5, 6, 7, 10, 20}) throw std::logic_error("due after other steps");
  });
}

}  // namespace replica_check_test
