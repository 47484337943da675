// Parameters that stay gathered through a step, or through an evaluation: how often ranks gather, and that what they
// compute stays the same.
#include <ATen/core/grad_mode.h>
#include <capstan/monitor/tracer.h>
#include <capstan_catch.h>

#include <set>

#include "shard/rig.h"

namespace gathers_once_test {

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

namespace {

std::int64_t gathered_bytes(const Rig& rig) {
  std::int64_t bytes = 0;
  for (const auto& part : rig.engine->held()) bytes += part.part == "gathered units" ? part.bytes : 0;
  return bytes;
}

// All full weights of the chain, in float64.
std::int64_t full_bytes(const Rig& rig, int world) {
  std::set<const nn::Weight*> weights;
  for (const auto& unit : rig.chain) {
    for (const auto& weight : unit->weights()) weights.insert(weight.get());
  }
  const layout::Mesh mesh({{layout::Axis::dp, world}});
  std::int64_t elements = 0;
  for (const auto* weight : weights) elements += nn::shard_weight(*weight, mesh, 0, world).full_elements;
  return elements * 8;
}

struct Evaluated {
  std::vector<double> losses;
  std::vector<int> gathers;            // of each evaluation
  std::vector<std::int64_t> gathered;  // bytes before, in and after each evaluation
  std::int64_t full = 0;
};

// An evaluation before the first step, and one after it, of three batches each.
Evaluated evaluate(int world, const RigOptions& options) {
  Evaluated out;
  comm::run_in_process(world, [&](comm::Communicator& communicator) {
    const auto counted = std::make_shared<Gathers>();
    communicator.trace(counted);
    Rig rig(communicator, options);
    const bool is_first = communicator.world().rank == 0;
    const auto note_bytes = [&] {
      if (is_first) out.gathered.push_back(gathered_bytes(rig));
    };
    const auto evaluation = [&] {
      counted->taken();
      note_bytes();
      {
        const at::NoGradGuard no_grad;
        const auto held = rig.engine->hold();
        for (int batch = 0; batch < 3; ++batch) {
          const auto loss = rig.runner->forward(tiny_batch(9 + batch)).states.item<double>();
          if (is_first) out.losses.push_back(loss);
        }
        note_bytes();
      }
      note_bytes();
      if (is_first) out.gathers.push_back(counted->taken());
    };
    evaluation();
    rig.micro_step(0, tiny_batch(communicator.world().rank));
    update_with(rig, [](std::vector<optimizer::Slice>& slices) {
      for (auto& slice : slices) slice.master.sub_(slice.grad.to(slice.master.scalar_type()), 0.125);
    });
    evaluation();
    if (is_first) out.full = full_bytes(rig, world);
    communicator.trace(nullptr);
  });
  return out;
}

}  // namespace

TEST_CASE("an evaluation gathers each bucket once if it holds them, computes the same bits, and frees them") {
  const int offload = GENERATE(0, 2), part = GENERATE(0, 2);
  const bool coalesce = GENERATE(false, true), limits = GENERATE(false, true), casts = GENERATE(false, true);
  INFO("offload " << offload << " part " << part << " coalesce " << coalesce << " limits " << limits << " casts "
                  << casts);
  RigOptions options{.sharded = false, .coalesce = coalesce};
  options.policy = [&](strategy::ShardPolicy& policy) {
    set_stage(policy, 3, offload);
    policy.reshard_size = part;
    policy.limit_all_gathers = limits;
    policy.cast_at_gather = casts;
  };
  const auto each = evaluate(4, options);
  options.holds = true;
  const auto once = evaluate(4, options);
  // Four buckets; the table's is used at both ends.
  CHECK(each.gathers == std::vector<int>{3 * 5, 3 * 5});
  CHECK(once.gathers == std::vector<int>{4, 4});
  CHECK(once.losses == each.losses);
  CHECK(once.losses[0] != once.losses[3]);
  CHECK(each.gathered == std::vector<std::int64_t>(6, 0));
  CHECK(once.gathered == std::vector<std::int64_t>{0, once.full, 0, 0, once.full, 0});
}

TEST_CASE("an evaluation that fails frees what it holds, but for what was being used") {
  RigOptions options{.sharded = false, .holds = true};
  options.policy = [](strategy::ShardPolicy& policy) { set_stage(policy, 3); };
  class Failing : public strategy::UnitHooks {
   public:
    explicit Failing(const bool& fails) : fails_(fails) {}
    void before_forward() override {
      if (fails_) throw Error("this unit fails");
    }

   private:
    const bool& fails_;
  };
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    bool fails = false;
    // Units without hooks of their own have some that do nothing.
    const bool never = false;
    Rig rig(communicator, options, {},
            [&](std::size_t unit) { return std::make_unique<Failing>(unit == 2 ? fails : never); });
    const at::NoGradGuard no_grad;
    const auto loss = [&] { return rig.runner->forward(tiny_batch(9)).states.item<double>(); };
    const auto expected = loss();
    const auto scored = [&] {
      const auto held = rig.engine->hold();
      CHECK(loss() == expected);
      throw Error("an answer cannot be scored");
    };
    CHECK_THROWS(scored());
    CHECK(gathered_bytes(rig) == 0);
    const auto evaluated = [&] {
      const auto held = rig.engine->hold();
      CHECK(loss() == expected);
      fails = true;
      loss();
    };
    CHECK_THROWS(evaluated());
    fails = false;
    CHECK(gathered_bytes(rig) < full_bytes(rig, 2) / 2);
    CHECK(loss() == expected);
  });
}

}  // namespace gathers_once_test
