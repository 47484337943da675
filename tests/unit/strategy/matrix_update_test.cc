// Rules that need whole matrices: every layout updates as one rank does.
#include "strategy/matrix_update.h"

#include <capstan_catch.h>

#include <mutex>
#include <stdexcept>

#include "shard/rig.h"

using namespace capstan;
using namespace capstan::testing;
using comm::Communicator;
using comm::run_in_process;

namespace {

// Gradients are added up; each matrix m of the sums becomes (1 + L)^-1 m, where its owner keeps L, the sum of all m
// m^T. Vectors move by their gradients.
class Preconditioned : public optimizer::Rule {
 public:
  std::vector<optimizer::StateSpec> states(const layout::Param& /*record*/) const override { return {{"sum"}}; }
  optimizer::Grain grain() const override { return optimizer::Grain::matrix; }
  std::optional<optimizer::WholeSpec> whole_spec(const layout::Param& record, c10::ScalarType master,
                                                 c10::DeviceType /*device*/) const override {
    if (record.shape.size() < 2) return {};
    const auto rows = record.shape[0];
    return optimizer::WholeSpec{master, static_cast<double>(record.numel()), 0, {{"left", master, {rows, rows}}}};
  }
  void begin(std::vector<optimizer::Slice>& slices, const optimizer::Update& /*update*/) override {
    for (auto& slice : slices) {
      slice.state[0].add_(slice.grad);
      if (slice.part.defined()) slice.part.copy_(slice.state[0]);
    }
  }
  void whole(const optimizer::Matrices& matrices, const optimizer::Update& /*update*/) override {
    const auto& m = matrices.value;
    if (static_cast<std::int64_t>(matrices.records.size()) != m.size(0)) throw std::logic_error("a record a matrix");
    matrices.state[0].add_(at::bmm(m, m.transpose(1, 2)));
    m.copy_(at::linalg_solve(matrices.state[0] + at::eye(m.size(1), m.options()), m));
  }
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& /*update*/) override {
    for (auto& slice : slices) slice.master.sub_(slice.part.defined() ? slice.part : slice.grad * slice.lr);
  }
};

struct Case {
  int world = 1;
  int stage = 0;
  int offload = 0;
  std::int64_t most_whole = 1000;
  double ratio = 1;
};

// Masters after two steps of four batches each.
Whole run(const Case& c) {
  at::set_num_threads(1);
  Whole weights;
  std::mutex mutex;
  run_in_process(c.world, [&](Communicator& communicator) {
    RigOptions options{
        .accumulation = 4 / c.world, .most_whole = c.most_whole, .optimizer = std::make_shared<Preconditioned>()};
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

double apart(const Whole& a, const Whole& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (const auto& [name, value] : a) most = std::max(most, (value - b.at(name)).abs().max().item<double>());
  return most;
}

}  // namespace

TEST_CASE("whole matrices are updated as on one rank, in one round or many, wherever masters are") {
  const auto alone = run({});
  CHECK(apart(alone, run({.most_whole = 1})) < 1e-13);
  for (const int world : {1, 2, 4}) {
    for (const int stage : {0, 1, 2, 3}) {
      for (const int offload : {0, 1, 2}) {
        if ((offload > 0 && stage == 0) || (offload == 2 && stage < 3)) continue;
        for (const std::int64_t most : {1, 1000}) {
          for (const double ratio : {1.0, 0.5}) {
            if (ratio < 1 && offload == 0) continue;
            INFO("world " << world << " stage " << stage << " offload " << offload << " most " << most << " ratio "
                          << ratio);
            CHECK(apart(alone, run({world, stage, offload, most, ratio})) < 1e-12);
          }
        }
      }
    }
  }
}

TEST_CASE("rules of other grains update their records beside it") {
  run_in_process(2, [](Communicator& communicator) {
    auto group = strategy::OptimizerGroup{"groups", {"*.down"}, std::make_shared<RuleOf>(0)};
    int plain = 0;
    static_cast<RuleOf&>(*group.rule).set([&](std::vector<optimizer::Slice>& slices) {
      for (auto& slice : slices) {
        ++plain;
        slice.master.zero_();
      }
    });
    RigOptions options;
    options.groups = {group, {"optimizer", {}, std::make_shared<Preconditioned>()}};
    options.policy = [](strategy::ShardPolicy& policy) { set_stage(policy, 2, 1); };
    Rig rig(communicator, options);
    rig.micro_step(0, tiny_batch(communicator.world().rank));
    rig.engine->update(0.01, {});
    Whole weights;
    std::mutex mutex;
    merge(weights, mutex, rig.engine->stored_boxes());
    CHECK(plain == 2);
    for (const auto& [name, value] : weights) {
      if (name.ends_with(".down")) CHECK(value.nan_to_num(0).count_nonzero().item<std::int64_t>() == 0);
      if (name.ends_with(".q")) CHECK(value.nan_to_num(0).count_nonzero().item<std::int64_t>() > 0);
    }
  });
}
