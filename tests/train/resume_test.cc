// Exact resume: N steps are k steps, a checkpoint, and N - k steps: bit by bit on the same layout, and the same global
// batches on any other.
#include <ATen/ATen.h>
#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <map>

#include "support/sharding_cases.h"

using namespace capstan;
using namespace capstan::testing;
using Catch::Matchers::Contains;

namespace {

constexpr std::int64_t steps = 6;
constexpr std::int64_t saved_behind = 3;
// Some ten units of sums in float64, whose order differs between layouts: what the project promises.
constexpr double tolerance = 1e-10;
constexpr const char* dropout = "model.dropout=0.1";

Setting exact(const ShardingCase& c, const char* precision) {
  auto overrides = c.overrides;
  for (const char* more : {dropout, "run.deterministic=true", "train.loss_scale=dynamic", "train.loss_scale_init=1024",
                           "train.loss_scale_window=2"}) {
    overrides.emplace_back(more);
  }
  overrides.push_back(std::string("train.precision=") + precision);
  return {.world = c.world, .config = c.strategy, .overrides = std::move(overrides), .steps = steps};
}

// Everything that a run has is in it: masters, the optimizer's state, the number of updates, a loss scale that has
// grown, the cursor, the step that dropout draws by.
void check_bits(const Choice& choice) {
  const auto c = sharding_case(choice);
  for (const char* precision : {"fp32", "bf16"}) {
    const auto setting = exact(c, precision);
    INFO(precision << ", " << c.name);
    CHECK(differences(train_resumed(setting, saved_behind, setting), train(setting), 0) == "");
  }
}

/// From one layout to another: ranks before, layout before, ranks behind, layout behind.
enum Reload : std::size_t { ranks_before, layout_before, ranks_behind, layout_behind };

std::vector<std::size_t> reload_levels() { return {4, 8, 4, 8}; }

ShardingCase case_of(std::size_t ranks, std::size_t layout) {
  Choice choice(factors_, 0);
  choice[layout_] = layout;
  choice[world_] = ranks;
  choice[bucket_] = (layout + ranks) % 2;
  return sharding_case(choice);
}

Setting float64(const ShardingCase& c) {
  auto overrides = c.overrides;
  overrides.emplace_back(dropout);
  return {.world = c.world, .config = c.strategy, .overrides = std::move(overrides), .steps = steps};
}

void check_reload(const Choice& choice) {
  static const Run reference = train({.overrides = {dropout}, .steps = steps});
  const auto before = case_of(choice[ranks_before], choice[layout_before]);
  const auto behind = case_of(choice[ranks_behind], choice[layout_behind]);
  INFO("from " << before.name << "to " << behind.name);
  CHECK(differences(train_resumed(float64(before), saved_behind, float64(behind)), reference, tolerance) == "");
}

bool always(const Choice& /*choice*/) { return true; }

}  // namespace

TEST_CASE("resume is bit-equal on a pairwise cover of the sharding matrix", "[resume]") {
  for (const auto& choice : pairwise(sharding_levels(), sharding_allowed)) check_bits(choice);
}

TEST_CASE("any layout goes on from what any layout saved: a pairwise cover", "[resume]") {
  for (const auto& choice : pairwise(reload_levels(), always)) check_reload(choice);
}

TEST_CASE("resume: the whole sharding matrix, and every way from one layout to another", "[.][full][resume]") {
  each_choice(sharding_levels(), [](const Choice& choice) {
    if (sharding_allowed(choice)) check_bits(choice);
  });
  each_choice(reload_levels(), check_reload);
}

TEST_CASE("resume is bit-equal behind any step, the first and the last too") {
  const Setting setting{.world = 2,
                        .config = "[strategy.zero]\nstage = 2\n",
                        .overrides = {dropout, "run.deterministic=true"},
                        .steps = steps};
  const auto straight = train(setting);
  for (const std::int64_t k : {1, 2, 5, 6}) {
    INFO("behind step " << k);
    CHECK(differences(train_resumed(setting, k, setting), straight, 0) == "");
  }
}

TEST_CASE("bf16_pure and fp16's masters come back bit for bit") {
  for (const char* strategy : {"", "[strategy.fsdp]\nmode = \"full_shard\"\n"}) {
    const Setting setting{.world = 2,
                          .config = strategy,
                          .overrides = {dropout, "run.deterministic=true", "train.precision=bf16_pure"},
                          .steps = steps};
    CHECK(differences(train_resumed(setting, saved_behind, setting), train(setting), 0) == "");
  }
}

namespace {

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>& /*table*/) {}
};

// Ranks train on their own samples and take the mean of their parameters every fourth step; one tensor counts steps
// and makes the mean differ by them, so that it matters.
class Apart : public strategy::Strategy {
 public:
  explicit Apart(const config::Options<NoOptions>& /*options*/) {}
  void claim(strategy::Claims& claims) const override { claims.exclusive("summed gradients on dp"); }
  void place(nn::Unit& unit, const strategy::Placement& /*placement*/) override {
    for (const auto& weight : unit.weights()) {
      for (auto& record : weight->records()) record.local_axes = {layout::Axis::dp};
    }
  }
  std::unique_ptr<strategy::StepHooks> step() override { return std::make_unique<Hooks>(); }

 private:
  class Hooks : public strategy::StepHooks {
   public:
    void after_step(strategy::Step& step) override {
      const auto count = step.state("count", {1}, c10::ScalarType::Double);
      count.add_(1);
      for (auto& part : step.parts) part.master.mul_(1 + 1e-3 * count.item<double>());
      if ((step.number + 1) % 4 != 0 && !step.last) return;
      for (auto& part : step.parts) {
        step.group(layout::Axis::dp).all_reduce(part.master, comm::ReduceOp::sum, "mean of " + part.record->name);
        part.master.div_(step.group(layout::Axis::dp).size());
      }
    }
  };
};

// What a sum of a bucket leaves over is added to the next one.
class Remembers : public strategy::Strategy {
 public:
  explicit Remembers(const config::Options<NoOptions>& /*options*/) {}
  void claim(strategy::Claims& claims) const override {
    claims.exclusive(strategy::gradient_reduction_seat(layout::Axis::dp));
  }
  std::unique_ptr<strategy::StepHooks> step() override { return std::make_unique<Hooks>(); }

 private:
  class Hooks : public strategy::StepHooks {
   public:
    void reduce(strategy::Bucket& bucket, layout::Axis /*axis*/) override {
      auto before = bucket.state("before", bucket.gradient.sizes(), bucket.gradient.scalar_type());
      bucket.gradient.add_(before, 0.5);
      before.copy_(bucket.gradient);
      auto sum = bucket.gradient.clone();
      bucket.group.all_reduce(sum, comm::ReduceOp::sum, "sum of " + bucket.name);
      const auto n = bucket.out.numel();
      bucket.out.copy_(n == sum.numel() ? sum : sum.narrow(0, n * bucket.group.rank(), n));
    }
  };
};

Setting with(const char* name, int world, const char* more = "") {
  return {.world = world,
          .config = std::string("[strategy.") + name + "]\n" + more,
          .overrides = {dropout, "run.deterministic=true"},
          .steps = steps,
          .types = {testing::type<strategy::Strategy, Apart, NoOptions>("strategy", "apart"),
                    testing::type<strategy::Strategy, Remembers, NoOptions>("strategy", "remembers")}};
}

}  // namespace

TEST_CASE("parameters and optimizer state that ranks keep for themselves are saved once a rank") {
  const auto setting = with("apart", 3);
  // Behind step 3 ranks are apart; behind step 4 they have just met.
  for (const std::int64_t k : {3, 4}) {
    CHECK(differences(train_resumed(setting, k, setting), train(setting), 0) == "");
  }
}

TEST_CASE("what a strategy remembers of a bucket goes on") {
  for (const char* sharding : {"", "[strategy.fsdp]\nmode = \"shard_grad_op\"\n"}) {
    const auto setting = with("remembers", 2, sharding);
    CHECK(differences(train_resumed(setting, saved_behind, setting), train(setting), 0) == "");
  }
}

TEST_CASE("what the run cannot go on from is refused in words, all faults at once") {
  const Setting setting{.world = 1, .overrides = {}, .steps = steps};
  auto other = setting;
  other.overrides = {"train.global_batch=12", "run.seed=4"};
  CHECK_THROWS_WITH(train_resumed(setting, saved_behind, other),
                    Contains("global_batch is 12, but 24 in the checkpoint") &&
                        Contains("seed is 4, but 3 in the checkpoint") && Contains("set it to 24, or start a new run"));
  auto shorter = setting;
  shorter.steps = 2;
  CHECK_THROWS_WITH(train_resumed(setting, saved_behind, shorter),
                    Contains("the run has 2 steps") && Contains("is behind step 3") && Contains("make the run longer"));
}
