// Exact resume: N steps are k steps, a checkpoint, and N - k steps: bit by bit on the same layout, and the same global
// batches on any other.
#include <ATen/ATen.h>
#include <capstan/base/files.h>
#include <capstan/base/log.h>
#include <capstan/optimizer.h>
#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <map>

#include "checkpoint/checkpoint.h"
#include "support/folder.h"
#include "support/sharding_cases.h"

namespace resume_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

constexpr std::int64_t steps = 6;
constexpr std::int64_t saved_after = 3;
// In matrices: what a step leaves counts in the next one, once before the resume, once in it and once after it.
constexpr std::int64_t few_steps = 4, few_saved_after = 2;
// Some ten units of sums in float64, whose order differs between layouts: what the project promises.
constexpr double tolerance = 1e-10;
constexpr const char* dropout = "model.dropout=0.1";

constexpr auto precision_ = static_cast<std::size_t>(factors_);

Setting exact(const ShardingCase& c, const char* precision) {
  auto overrides = c.overrides;
  for (const char* more : {dropout, "run.deterministic=true", "train.loss_scale=dynamic", "train.loss_scale_init=1024",
                           "train.loss_scale_window=2"}) {
    overrides.emplace_back(more);
  }
  overrides.push_back(std::string("train.precision=") + precision);
  return {.world = c.world, .config = c.strategy, .overrides = std::move(overrides), .steps = few_steps};
}

// Everything that a run has is in it: masters, the optimizer's state, the number of updates, a loss scale that has
// grown, the cursor, the step that dropout draws by.
void check_bits(const Choice& choice) {
  const auto c = sharding_case(choice);
  const auto* const precision = choice[precision_] == 0 ? "fp32" : "bf16";
  const auto setting = exact(c, precision);
  INFO(precision << ", " << c.name);
  CHECK(differences(train_resumed(setting, few_saved_after, setting), testing::train(setting), 0) == "");
}

// The sharding matrix with the precision as its last factor.
std::vector<std::size_t> levels_of_bits() {
  auto levels = unscaled_levels();
  levels.push_back(2);
  return levels;
}

/// From one layout to another: ranks before, layout before, ranks after, layout after.
enum Reload : std::size_t { ranks_before, layout_before, ranks_after, layout_after };

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
  return {.world = c.world, .config = c.strategy, .overrides = std::move(overrides), .steps = few_steps};
}

void check_reload(const Choice& choice) {
  static const TrainResult reference = testing::train({.overrides = {dropout}, .steps = few_steps});
  const auto before = case_of(choice[ranks_before], choice[layout_before]);
  const auto after = case_of(choice[ranks_after], choice[layout_after]);
  INFO("from " << before.name << "to " << after.name);
  CHECK(differences(train_resumed(float64(before), few_saved_after, float64(after)), reference, tolerance) == "");
}

bool always(const Choice& /*choice*/) { return true; }

}  // namespace

TEST_CASE("resume is bit-equal on a pairwise cover of the sharding matrix", "[resume]") {
  for (const auto& choice : pairwise(levels_of_bits(), sharding_allowed)) check_bits(choice);
}

TEST_CASE("any layout continues from what any layout saved: a pairwise cover", "[resume]") {
  for (const auto& choice : pairwise(reload_levels(), always)) check_reload(choice);
}

TEST_CASE("resume: the whole sharding matrix, and every way from one layout to another", "[.][full][resume]") {
  each_choice(levels_of_bits(), [](const Choice& choice) {
    if (sharding_allowed(choice)) check_bits(choice);
  });
  each_choice(reload_levels(), check_reload);
}

TEST_CASE("resume is bit-equal after any step, the first and the last too") {
  const Setting setting{.world = 2,
                        .config = "[strategy.zero]\nstage = 2\n",
                        .overrides = {dropout, "run.deterministic=true"},
                        .steps = steps};
  const auto straight = testing::train(setting);
  for (const std::int64_t k : {1, 2, 5, 6}) {
    INFO("after step " << k);
    CHECK(differences(train_resumed(setting, k, setting), straight, 0) == "");
  }
}

TEST_CASE("bf16_pure and fp16's masters come back bit for bit") {
  for (const char* strategy : {"", "[strategy.fsdp]\nmode = \"full_shard\"\n"}) {
    const Setting setting{.world = 2,
                          .config = strategy,
                          .overrides = {dropout, "run.deterministic=true", "train.precision=bf16_pure"},
                          .steps = steps};
    CHECK(differences(train_resumed(setting, saved_after, setting), testing::train(setting), 0) == "");
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
    void after_step(strategy::StepContext& step) override {
      const auto count = step.state->tensor("count", {1}, c10::ScalarType::Double);
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
    claims.exclusive(strategy::gradient_reduction_point(layout::Axis::dp));
  }
  std::unique_ptr<strategy::StepHooks> step() override { return std::make_unique<Hooks>(); }

 private:
  class Hooks : public strategy::StepHooks {
   public:
    void reduce(strategy::Bucket& bucket, layout::Axis /*axis*/) override {
      auto before = bucket.state->tensor("before", bucket.gradient.sizes(), bucket.gradient.options());
      bucket.gradient.add_(before, 0.5);
      before.copy_(bucket.gradient);
      auto sum = bucket.gradient.clone();
      bucket.group.all_reduce(sum, comm::ReduceOp::sum, "sum of " + bucket.name);
      const auto n = bucket.out.numel();
      bucket.out.copy_(n == sum.numel() ? sum : sum.narrow(0, n * bucket.group.rank(), n));
    }
  };
};

// Only the second block and what follows it is trained.
class Freezes : public strategy::Strategy {
 public:
  explicit Freezes(const config::Options<NoOptions>& /*options*/) {}
  void structure(std::vector<std::unique_ptr<nn::Unit>>& units) override {
    for (const auto& weight : units[1]->weights()) {
      for (auto& record : weight->records()) record.trainable = false;
    }
  }
};

// Plain descent, which keeps nothing of its own.
class Descends : public optimizer::Rule {
 public:
  explicit Descends(const config::Options<NoOptions>& /*options*/) {}
  std::vector<optimizer::StateSpec> states(const layout::Param& /*record*/) const override { return {}; }
  void apply(std::vector<optimizer::Slice>& slices, const optimizer::Update& /*update*/) override {
    for (auto& slice : slices) slice.master.sub_(slice.grad, slice.lr);
  }
};

// What is logged while it lives.
class Log {
 public:
  Log() { log::configure((folder_ / "log").string(), log::Level::error, 0); }
  ~Log() { log::configure("", log::Level::warning, 0); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;
  std::string text() const { return read_file(folder_ / "log"); }

 private:
  test::Folder folder_;
};

Setting with(const std::string& name, int world, const char* more = "") {
  return {.world = world,
          .config = (name.empty() ? "" : "[strategy." + name + "]\n") + more,
          .overrides = {dropout, "run.deterministic=true"},
          .steps = steps,
          .types = {testing::type<strategy::Strategy, Apart, NoOptions>("strategy", "apart"),
                    testing::type<strategy::Strategy, Remembers, NoOptions>("strategy", "remembers"),
                    testing::type<strategy::Strategy, Freezes, NoOptions>("strategy", "freezes"),
                    testing::type<optimizer::Rule, Descends, NoOptions>("optimizer", "descends")}};
}

}  // namespace

TEST_CASE("parameters and optimizer state that ranks keep for themselves are saved once a rank") {
  const auto setting = with("apart", 3);
  const auto straight = testing::train(setting);
  // After step 3 ranks are apart; after step 4 they have just met.
  for (const std::int64_t k : {3, 4}) {
    auto resumed = train_resumed(setting, k, setting);
    // Gradients are each rank's own: whose gradients it gets is chance.
    resumed.disagreements.clear();
    resumed.gradients = straight.gradients;
    CHECK(differences(resumed, straight, 0) == "");
  }
}

TEST_CASE("what a strategy remembers of a bucket continues") {
  for (const char* sharding : {"", "[strategy.fsdp]\nmode = \"shard_grad_op\"\n"}) {
    const auto setting = with("remembers", 2, sharding);
    CHECK(differences(train_resumed(setting, saved_after, setting), testing::train(setting), 0) == "");
  }
}

TEST_CASE("what the run cannot continue from is refused in words, all faults at once") {
  const Setting setting{.world = 1, .overrides = {}, .steps = steps};
  auto other = setting;
  other.overrides = {"train.global_batch=12", "run.seed=4"};
  CHECK_THROWS_WITH(train_resumed(setting, saved_after, other),
                    Contains("global_batch is 12, but 24 in the checkpoint") &&
                        Contains("seed is 4, but 3 in the checkpoint") && Contains("set it to 24, or start a new run"));
  auto shorter = setting;
  shorter.steps = 2;
  CHECK_THROWS_WITH(train_resumed(setting, saved_after, shorter),
                    Contains("the run has 2 steps") && Contains("is after step 3") && Contains("make the run longer"));
}

TEST_CASE("another function, other data or another optimizer is refused with both values, and accepted by name") {
  const Setting setting{.world = 1, .overrides = {dropout, "checkpoint.every_steps=1"}, .steps = steps};
  auto other = setting;
  for (const char* more : {"model.dropout=0.2", "data.length=9", "optimizer.clip=2", "optimizer.betas=[0.8,0.99]"})
    other.overrides.emplace_back(more);
  CHECK_THROWS_WITH(train_resumed(setting, saved_after, other),
                    Contains("model.dropout is 0.2, but 0.1 in the checkpoint") &&
                        Contains("data.length is 9, but 0 in the ") &&
                        Contains("optimizer.clip is 2.0, but 1.0 in the ") &&
                        Contains("optimizer.betas is [0.8, 0.99], but [0.9, 0.999] in the ") &&
                        Contains("or accept it: checkpoint.accept = [\"optimizer.clip\"]"));
  other.overrides.emplace_back("checkpoint.accept=[\"model\", \"data.length\", \"optimizer\"]");
  const Log log;
  CHECK(train_resumed(setting, saved_after, other).losses.size() == steps);
  CHECK_THAT(log.text(), Contains("optimizer.clip is 2.0, not 1.0, as checkpoint.accept allows"));
}

TEST_CASE("frozen parameters are saved or left out, and come from where they came") {
  for (const char* sharding : {"", "[strategy.fsdp]\nmode = \"full_shard\"\n"}) {
    auto setting = with("freezes", 2, sharding);
    const auto straight = testing::train(setting);
    CHECK(differences(train_resumed(setting, saved_after, setting), straight, 0) == "");
    setting.overrides.emplace_back("checkpoint.save=trainable");
    CHECK(differences(train_resumed(setting, saved_after, setting), straight, 0) == "");
  }
}

TEST_CASE("a run continues with the optimizer that it was saved with, and with what that trained") {
  const auto plain = with("", 2, "[optimizer]\nplugin = \"descends\"\n");
  CHECK(differences(train_resumed(plain, saved_after, plain), testing::train(plain), 0) == "");
  CHECK_THROWS_WITH(train_resumed(plain, saved_after, with("", 2)),
                    Contains("optimizer.plugin is \"adamw\", but \"descends\" in the checkpoint"));
  auto adamw = with("", 2);
  adamw.overrides.emplace_back("checkpoint.accept=[\"optimizer\", \"strategy\"]");
  CHECK_THROWS_WITH(train_resumed(plain, saved_after, adamw),
                    Contains("it has no 'optimizer/exp_avg', which the optimizer of this run keeps") &&
                        Contains("it has no 'optimizer/exp_avg_sq'") &&
                        Contains("continue with the optimizer that was saved"));
  auto plain_then = plain;
  plain_then.overrides.emplace_back("checkpoint.accept=[\"optimizer\", \"strategy\"]");
  CHECK_THROWS_WITH(train_resumed(adamw, saved_after, plain_then),
                    Contains("it has 'optimizer/exp_avg', which the optimizer of this run does not keep"));
  CHECK_THROWS_WITH(train_resumed(with("freezes", 2), saved_after, adamw),
                    Contains("it has no optimizer state of 'blocks.0.") && Contains(" more") &&
                        Contains("train the same parameters as the run that was saved"));
}

TEST_CASE("what cannot be given back on another mesh is said") {
  {
    const Log log;
    (void)train_resumed(with("remembers", 2), saved_after, with("remembers", 3));
    CHECK_THAT(log.text(),
               Contains("strategies' own state is of the mesh world 2") && Contains("and starts afresh on world 3"));
  }
  const Log log;
  (void)train_resumed(with("apart", 2), saved_after, with("apart", 3));
  CHECK_THAT(log.text(), Contains("there are more ranks now: the new ones start from the first one's"));
}

}  // namespace resume_test
