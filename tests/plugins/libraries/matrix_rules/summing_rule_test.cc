// Rules that need sums over records: every layout sums each element once, and updates as one rank does.
#include <capstan/matrix_rules/summing_rule.h>
#include <capstan_catch.h>

#include <cmath>
#include <mutex>

#include "shard/counting.h"
#include "shard/rig.h"
#include "support/errors.h"

namespace summing_rule_test {

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;
using matrix_rules::Kept;
using matrix_rules::SummedSlice;

namespace {

// Steps as long as the parameter is, times an average of the rows' gradients, which is a state of the record. The
// second pass counts elements.
class ByNorm : public matrix_rules::SummingRule {
 public:
  std::vector<optimizer::StateSpec> states(const layout::Param& /*record*/) const override { return {{"sum"}}; }
  std::vector<matrix_rules::RecordState> record_states(const layout::Param& /*record*/) const override {
    return {{"rows", {0}}};
  }
  std::vector<std::vector<Kept>> sums(const layout::Param& record) const override {
    if (record.shape.size() < 2) return {{Kept{}, Kept{0}}, {Kept{}}};
    return {{Kept{}, Kept{0}}, {Kept{}, Kept{1}, Kept{0, 1}}};
  }
  std::vector<at::Tensor> terms(std::size_t pass, const SummedSlice& slice,
                                const optimizer::Update& /*update*/) const override {
    if (pass == 0) return {slice.master.square(), slice.grad};
    const auto ones = at::ones_like(slice.master);
    return std::vector<at::Tensor>(sums(*slice.record)[1].size(), ones);
  }
  void summed(std::size_t pass, SummedSlice& slice, const optimizer::Update& /*update*/) override {
    if (pass == 0) slice.record_state[0].lerp_(slice.sums[0][1], 0.5);
    if (pass == 0 && slice.sums.size() != 1) throw std::logic_error("sums of a pass that is to come");
  }
  void finish(SummedSlice& slice, const optimizer::Update& /*update*/) override {
    const auto& shape = slice.record->shape;
    const auto counted = [&](std::size_t sum, std::int64_t each) {
      if (!at::equal(slice.sums[1][sum], at::full_like(slice.sums[1][sum], static_cast<double>(each))))
        throw std::logic_error("'" + slice.record->name + "' is not counted once");
    };
    counted(0, slice.record->numel());
    if (shape.size() > 1) {
      counted(1, shape[0]);
      counted(2, 1);
    }
    const auto rows = slice.here(slice.record_state[0], {0});
    slice.state[0].add_(slice.grad);
    slice.master.view(slice.box.size).sub_(rows * slice.sums[0][0].sqrt() * slice.lr);
  }
};

struct Case {
  int world = 1;
  int stage = 0;
  int offload = 0;
  double ratio = 1;
};

// Masters after two steps of four batches each.
Whole run(const Case& c) {
  at::set_num_threads(1);
  Whole weights;
  std::mutex mutex;
  run_in_process(c.world, [&](Communicator& communicator) {
    RigOptions options{.accumulation = 4 / c.world, .optimizer = std::make_shared<ByNorm>()};
    options.policy = [&](strategy::ShardPolicy& policy) {
      set_stage(policy, c.stage, c.offload);
      policy.offload_ratio = c.ratio;
    };
    Rig rig(communicator, options);
    for (std::int64_t step = 0; step < 2; ++step) {
      for (std::int64_t micro = 0; micro < options.accumulation; ++micro)
        rig.micro_step(micro, tiny_batch(step * 4 + micro * c.world + communicator.world().rank));
      rig.engine->update(0.01, {});
    }
    merge(weights, mutex, rig.engine->stored_boxes());
  });
  return weights;
}

// Sums its gradients' rows, in no memory of its own.
class Rows : public matrix_rules::SummingRule {
 public:
  std::vector<optimizer::StateSpec> states(const layout::Param& /*record*/) const override { return {}; }
  std::vector<matrix_rules::RecordState> record_states(const layout::Param& /*record*/) const override {
    return {{"rows", {0}}};
  }
  std::vector<std::vector<Kept>> sums(const layout::Param& record) const override {
    if (record.shape.size() < 2) return {};
    return {{Kept{0}}, {Kept{1}}};
  }
  std::int64_t working_copies() const override { return 0; }
  std::vector<at::Tensor> terms(std::size_t /*pass*/, const SummedSlice& slice,
                                const optimizer::Update& /*update*/) const override {
    return {slice.grad};
  }
  void finish(SummedSlice& /*slice*/, const optimizer::Update& /*update*/) override {}
};

std::int64_t bytes_of(const std::vector<layout::Footprint>& footprints, const std::string& part) {
  for (const auto& footprint : footprints) {
    if (footprint.part == part) return footprint.bytes;
  }
  return -1;
}

}  // namespace

TEST_CASE("sums count each element once and updates are one rank's, wherever masters are") {
  const auto alone = run({});
  CHECK(close(alone, run({}), 0));
  for (const int world : {1, 2, 4}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const int offload : {0, 1, 2}) {
        if ((offload > 0 && stage == 0) || (offload == 2 && stage < 3)) continue;
        for (const double ratio : {1.0, 0.5}) {
          if (ratio < 1 && offload == 0) continue;
          INFO("world " << world << " stage " << stage << " offload " << offload << " ratio " << ratio);
          CHECK(close(run({world, stage, offload, ratio}), alone, 1e-12));
        }
      }
    }
  }
}

TEST_CASE("sums take the memory that is predicted, and their states what is held") {
  const int world = GENERATE(1, 2, 3);
  const int stage = GENERATE(0, 3);
  INFO("world " << world << " stage " << stage);
  Faults faults;
  const Counting counting;
  run_in_process(world, [&](Communicator& communicator) {
    RigOptions options{.optimizer = std::make_shared<Rows>()};
    options.policy = [&](strategy::ShardPolicy& policy) { set_stage(policy, stage); };
    Rig rig(communicator, options);
    rig.micro_step(0, tiny_batch(communicator.world().rank));
    rig.engine->update(0, {});
    const auto before = peak = live;
    rig.engine->update(0, {});
    const auto said = bytes_of(rig.engine->footprint(), "sums over records");
    faults.expect(live == before, "an update keeps memory");
    faults.expect(peak - before == said,
                  "an update takes " + std::to_string(peak - before) + ", not " + std::to_string(said));
    std::int64_t states = 0;
    for (const auto& state : rig.engine->joint_states()) states += static_cast<std::int64_t>(state.value.nbytes());
    faults.expect(states > 0 && states == bytes_of(rig.engine->footprint(), "optimizer state"),
                  "states take " + std::to_string(states));
    faults.expect(states == bytes_of(rig.engine->held(), "optimizer state"), "states are held");
  });
  CHECK(faults.list() == std::vector<std::string>{});
}

TEST_CASE("one rank of those with the same box saves a record's state") {
  std::map<std::string, int> saved;
  std::mutex mutex;
  run_in_process(4, [&](Communicator& communicator) {
    RigOptions options{.optimizer = std::make_shared<Rows>()};
    options.policy = [](strategy::ShardPolicy& policy) { set_stage(policy, 3); };
    Rig rig(communicator, options);
    const std::lock_guard lock(mutex);
    for (const auto& state : rig.engine->joint_states()) saved[state.part.record->name] += state.part.is_saved ? 1 : 0;
  });
  CHECK_FALSE(saved.empty());
  for (const auto& [name, times] : saved) {
    INFO(name);
    CHECK(times == 1);
  }
}

TEST_CASE("what a rule says wrongly of its sums is an error with the record's name") {
  class Wrong : public Rows {
   public:
    explicit Wrong(Kept keeps) : keeps_(std::move(keeps)) {}
    std::vector<std::vector<Kept>> sums(const layout::Param& record) const override {
      if (record.shape.size() < 2) return {};
      return {{keeps_}};
    }
    std::vector<at::Tensor> terms(std::size_t /*pass*/, const SummedSlice& slice,
                                  const optimizer::Update& /*update*/) const override {
      return {slice.grad, slice.grad};
    }

   private:
    Kept keeps_;
  };
  const auto error_of = [](const Kept& keeps) {
    return test::error_of([&] {
      run_in_process(1, [&](Communicator& communicator) {
        Rig rig(communicator, {.optimizer = std::make_shared<Wrong>(keeps)});
        rig.micro_step(0, tiny_batch(0));
        rig.engine->update(0, {});
      });
    });
  };
  CHECK_THAT(error_of({2}), Contains("'table', which has 2 dimensions, keeps dimensions 2"));
  CHECK_THAT(error_of({1, 0}), Contains("'table'") && Contains("from 0 and ascending"));
  CHECK_THAT(error_of({0}), Contains("terms() of 'table' gives 2 tensors in pass 0, where sums() has 1"));
}

}  // namespace summing_rule_test
