// A strategy's optimizer rule: what it says of itself reaches the engine, and the prediction of memory asks it.
#include <capstan/strategy.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/job.h"
#include "support/small_run.h"

using namespace capstan;

namespace {

struct RuleOptions {
  std::int64_t states = 1;
  bool fused = false;
  bool elementwise = false;
  bool missing = false;
  static void describe(config::OptionTable<RuleOptions>& t) {
    t.add("states", &RuleOptions::states).doc("tensors a slice");
    t.add("fused", &RuleOptions::fused).doc("is_fused");
    t.add("elementwise", &RuleOptions::elementwise).doc("is_elementwise");
    t.add("missing", &RuleOptions::missing).doc("no rule, though it is claimed");
  }
};

int slices_with_copy = 0;

class Rule : public strategy::OptimizerRule {
 public:
  explicit Rule(const RuleOptions& options) : options_(options) {}
  std::size_t states() const override { return static_cast<std::size_t>(options_.states); }
  std::string state_name(std::size_t i) const override { return "state_of_test_" + std::to_string(i); }
  bool is_fused() const override { return options_.fused; }
  bool is_elementwise() const override { return options_.elementwise; }
  void apply(std::vector<strategy::Slice>& slices, const strategy::Update& update) override {
    for (auto& slice : slices) {
      slice.master.sub_(slice.grad, update.lr);
      if (!slice.copy.defined()) continue;
      slice.copy.copy_(slice.master);
      ++slices_with_copy;
    }
  }

 private:
  RuleOptions options_;
};

class Descent : public strategy::Strategy {
 public:
  explicit Descent(config::Options<RuleOptions> options) : options_(std::move(options)) {}
  void claim(strategy::Claims& claims) const override { claims.exclusive(strategy::optimizer_rule_point); }
  std::unique_ptr<strategy::OptimizerRule> optimizer_rule(const strategy::AdamWOptions&) override {
    return options_->missing ? nullptr : std::make_unique<Rule>(*options_);
  }

 private:
  config::Options<RuleOptions> options_;
};

session::Job prepare(const std::string& tables) {
  static plugin::Host host;
  static const bool once =
      (host.add(testing::type<strategy::Strategy, Descent, RuleOptions>("strategy", "own_rule")), true);
  CHECK(once);
  setup::JobRequest request;
  request.file = testing::small_config(tables);
  request.overrides = {"checkpoint.every_steps=5"};
  return testing::job_of(request, host);
}

std::int64_t bytes_of(const session::Job& job, const std::string& part) {
  for (const auto& footprint : job.prediction.footprints) {
    if (footprint.part == part) return footprint.bytes;
  }
  return -1;
}

std::string options(std::int64_t states, bool fused, bool elementwise) {
  return "[strategy.own_rule]\nstates = " + std::to_string(states) + "\nfused = " + (fused ? "true" : "false") +
         "\nelementwise = " + (elementwise ? "true" : "false") + "\n";
}

}  // namespace

TEST_CASE("what a strategy's rule says of itself is what the engine hears") {
  for (const bool fused : {false, true}) {
    for (const bool elementwise : {false, true}) {
      const auto rule = prepare(options(3, fused, elementwise)).model->rule;
      CHECK(rule->states() == 3);
      CHECK(rule->state_name(2) == "state_of_test_2");
      CHECK(rule->is_fused() == fused);
      CHECK(rule->is_elementwise() == elementwise);
    }
  }
}

TEST_CASE("a fused rule of a strategy writes the copies of what is offloaded, with the same result") {
  const auto train = [](bool fused) {
    slices_with_copy = 0;
    return testing::train(
        {.config = "[strategy.zero]\nstage = 1\noffload_optimizer = \"cpu\"\n" + options(0, fused, false),
         .overrides = {"train.precision=bf16"},
         .steps = 4,
         .types = {testing::type<strategy::Strategy, Descent, RuleOptions>("strategy", "own_rule")}});
  };
  const auto plain = train(false);
  CHECK(slices_with_copy == 0);
  const auto fused = train(true);
  CHECK(slices_with_copy > 0);
  CHECK(testing::differences(fused, plain, 0) == "");
}

TEST_CASE("the memory predicted for optimizer state is what the rule asks for, and so is what a checkpoint holds") {
  const auto adamw = prepare("");
  const auto two = bytes_of(adamw, "optimizer state");
  REQUIRE(two > 0);
  const auto saved = bytes_of(adamw, "checkpoint copy");
  REQUIRE(saved > 0);
  for (const std::int64_t states : {0, 1, 2, 3}) {
    INFO(states << " states");
    const auto job = prepare(options(states, false, false));
    CHECK(bytes_of(job, "optimizer state") == two / 2 * states);
    // Parameters and `states` tensors of their size, where AdamW has three in all.
    CHECK(bytes_of(job, "checkpoint copy") == saved / 3 * (1 + states));
    comm::run_in_process(1, [&](comm::Communicator& communicator) {
      const auto session = session::materialise(job, communicator);
      const auto real = session.engine->footprint(session.rule().states());
      CHECK(layout::total_bytes(real, "cpu") == layout::total_bytes(job.prediction.footprints, "cpu"));
    });
  }
}

namespace {

struct WrapOptions {
  double beta1 = -1;
  static void describe(config::OptionTable<WrapOptions>& t) {
    t.add("beta1", &WrapOptions::beta1).doc("instead of [optimizer]'s; below 0: that");
  }
};

// Core's rule inside another one, which asks it for everything.
class Wraps : public strategy::Strategy {
 public:
  explicit Wraps(config::Options<WrapOptions> options) : wrap_(std::move(options)) {}
  void claim(strategy::Claims& claims) const override { claims.exclusive(strategy::optimizer_rule_point); }
  std::unique_ptr<strategy::OptimizerRule> optimizer_rule(const strategy::AdamWOptions& optimizer) override {
    auto mine = optimizer;
    if (wrap_->beta1 >= 0) mine.betas[0] = wrap_->beta1;
    return std::make_unique<Outside>(strategy::adamw(mine));
  }

 private:
  class Outside : public strategy::OptimizerRule {
   public:
    explicit Outside(std::unique_ptr<strategy::OptimizerRule> inside) : inside_(std::move(inside)) {}
    std::size_t states() const override { return inside_->states(); }
    std::string state_name(std::size_t i) const override { return inside_->state_name(i); }
    bool is_elementwise() const override { return inside_->is_elementwise(); }
    bool is_fused() const override { return inside_->is_fused(); }
    void apply(std::vector<strategy::Slice>& slices, const strategy::Update& update) override {
      inside_->apply(slices, update);
    }

   private:
    std::unique_ptr<strategy::OptimizerRule> inside_;
  };
  config::Options<WrapOptions> wrap_;
};

}  // namespace

TEST_CASE("AdamW inside a strategy's rule has the options of [optimizer] and core's bits") {
  const auto train = [](const std::string& tables, const char* precision) {
    return testing::train(
        {.world = 2,
         .config = "[optimizer]\nbetas = [0.8, 0.95]\neps = 1e-6\nweight_decay = 0.1\ndecay = \"all\"\n" + tables,
         .overrides = {"run.deterministic=true", std::string("train.precision=") + precision},
         .steps = 4,
         .types = {testing::type<strategy::Strategy, Wraps, WrapOptions>("strategy", "wraps")}});
  };
  const std::string offload = "[strategy.zero]\nstage = 2\noffload_optimizer = \"cpu\"\n";
  for (const auto& sharding : {std::string(), offload}) {
    for (const char* precision : {"fp64", "fp32", "bf16"}) {
      INFO(sharding << precision);
      const auto core = train(sharding, precision);
      CHECK(testing::differences(train("[strategy.wraps]\n" + sharding, precision), core, 0) == "");
      CHECK(testing::differences(train("[strategy.wraps]\nbeta1 = 0.5\n" + sharding, precision), core, 0) != "");
    }
  }
}

TEST_CASE("a rule that is claimed and not given is a fault of the configuration") {
  CHECK_THROWS_WITH(prepare("[strategy.own_rule]\nmissing = true\n"),
                    Contains("claims the override point 'optimizer rule', but its optimizer_rule() returns nothing"));
}
