// Parameters that stay gathered through a step: how often ranks gather, and that what they compute stays the same.
#include <capstan/monitor/tracer.h>
#include <capstan_catch.h>

#include "shard/rig.h"

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr std::int64_t micro_steps = 3;

// Counts this rank's gathers of parameters.
class Gathers final : public monitor::Tracer {
 public:
  void begin(monitor::Span kind, std::string_view name) noexcept override {
    if (kind == monitor::Span::collective && name.starts_with("all-gather 'all-gather test ")) ++count_;
  }
  void end(monitor::Span /*kind*/, std::string_view /*name*/) noexcept override {}
  int taken() { return std::exchange(count_, 0); }

 private:
  int count_ = 0;
};

struct Learned {
  Whole first, second;            // gradients of the step before an update and of the one after it
  std::vector<double> evaluated;  // losses before the first step, and after the update
  std::vector<int> gathers;  // of the first evaluation, each step, and the second evaluation before the second step
};

Learned learn(int world, const RigOptions& options) {
  Learned out;
  std::mutex mutex;
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    const auto gathers = std::make_shared<Gathers>();
    communicator.trace(gathers);
    Rig rig(communicator, options);
    const bool is_first = communicator.world().rank == 0;
    const auto note = [&] {
      const auto count = gathers->taken();
      if (is_first) out.gathers.push_back(count);
    };
    const auto evaluate = [&] {
      const at::NoGradGuard no_grad;
      const auto loss = rig.runner->forward(tiny_batch(9)).states.item<double>();
      if (is_first) out.evaluated.push_back(loss);
      note();
    };
    const auto step = [&](Whole& gradients) {
      for (std::int64_t m = 0; m < micro_steps; ++m)
        rig.micro_step(m, tiny_batch(10 * communicator.world().rank + static_cast<int>(m)));
      note();
      merge(gradients, mutex, rig.engine->gradient_boxes());
    };
    evaluate();
    step(out.first);
    update_with(rig, [](std::vector<optimizer::Slice>& slices) {
      for (auto& slice : slices) slice.master.sub_(slice.grad, 0.125);
    });
    evaluate();
    step(out.second);
    communicator.trace(nullptr);
  });
  return out;
}

}  // namespace

TEST_CASE("a step gathers each bucket once, and an update is seen by what comes after it") {
  const auto reduce = GENERATE(shard::ReduceWhen::step, shard::ReduceWhen::micro_step);
  const int offload = GENERATE(0, 2);
  const bool coalesce = GENERATE(false, true), reshards = GENERATE(false, true);
  INFO("offload " << offload << " coalesce " << coalesce << " reshards " << reshards);
  RigOptions options{.sharded = false, .accumulation = micro_steps, .reduce = reduce};
  const auto whole = learn(2, options);
  REQUIRE(whole.evaluated.size() == 2);
  REQUIRE(whole.evaluated[0] != whole.evaluated[1]);
  options.coalesce = coalesce;
  options.policy = [&](strategy::ShardPolicy& policy) {
    set_stage(policy, 3, offload);
    policy.reshard_after_forward = reshards;
  };
  for (const bool once : {true, false}) {
    options.gathers_once = once;
    const auto learned = learn(2, options);
    CHECK(close(learned.first, whole.first, 1e-13));
    CHECK(close(learned.second, whole.second, 1e-12));
    CHECK(learned.evaluated[0] == Approx(whole.evaluated[0]).epsilon(1e-13));
    CHECK(learned.evaluated[1] == Approx(whole.evaluated[1]).epsilon(1e-12));
    // Four buckets. The table's is used at both ends; the head's stay from forward to backward.
    const int a_micro_step = reshards ? 5 + 3 : 4;
    const int a_step = once ? 4 : static_cast<int>(micro_steps) * a_micro_step;
    CHECK(learned.gathers == std::vector<int>{5, a_step, 5, a_step});
  }
}

TEST_CASE("nothing is left sharded over neighbours where parameters stay whole") {
  RigOptions options{.sharded = false, .accumulation = micro_steps};
  const auto whole = learn(4, options);
  options.gathers_once = true;
  options.policy = [](strategy::ShardPolicy& policy) {
    set_stage(policy, 3);
    policy.reshard_size = 2;
  };
  const auto learned = learn(4, options);
  CHECK(close(learned.second, whole.second, 1e-12));
  CHECK(learned.gathers == std::vector<int>{5, 4, 5, 4});
}
