// Runs on a mixture: what they learn and say of each source, on one rank and on several, and after a resume.
#include <capstan/monitor.h>
#include <capstan/objective.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <cmath>
#include <map>
#include <vector>

#include "support/families.h"

namespace training_test {

using namespace capstan;

namespace {

using Steps = std::vector<std::map<std::string, double>>;

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>&) {}
};

// What rank 0's metrics.jsonl would have. One run at a time.
Steps& told() {
  static Steps steps;
  return steps;
}
class Collect final : public monitor::Monitor {
 public:
  explicit Collect(const config::Options<NoOptions>&) {}
  void run_started(const monitor::RunStarted& run) override { speaks_ = run.rank == 0; }
  monitor::Values step_ended(const monitor::StepEnded& step) override {
    if (!speaks_) return {};
    std::map<std::string, double> values(step.values.begin(), step.values.end());
    values["loss"] = step.loss;
    values["target_tokens"] = static_cast<double>(step.target_tokens);
    told().push_back(std::move(values));
    return {};
  }

 private:
  bool speaks_ = false;
};

// The loss that causal_lm has where there is one source: it knows none.
class Plain final : public objective::Objective {
 public:
  explicit Plain(const config::Options<NoOptions>&) {}
  objective::Plan plan() const override {
    objective::Plan plan;
    plan.passes = {{"model"}};
    plan.counts = {"target tokens"};
    plan.terms = {{}};
    return plan;
  }
  std::vector<double> counts(const data::HostBatch& batch) const override {
    return {static_cast<double>(batch.target_tokens)};
  }
  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch&) const override {
    return {{outputs.front()}, {}};
  }
};

// A batch of 24 has as many samples of a as of b: the first epoch's only one has each sample once.
const std::string halves =
    "[data]\nplugin = \"mixture\"\n[[data.sources]]\nplugin = \"tiny\"\nname = \"a\"\nsamples = 12\n"
    "[[data.sources]]\nplugin = \"tiny\"\nname = \"b\"\nsamples = 12\nlength = 13\n";
const std::string unequal =
    "[data]\nplugin = \"mixture\"\n[[data.sources]]\nplugin = \"tiny\"\nname = \"a\"\nsamples = 40\nweight = 3.0\n"
    "[[data.sources]]\nplugin = \"tiny\"\nname = \"b\"\nsamples = 31\nlength = 13\n";

testing::Setting setting(const std::string& config, int world = 1, std::int64_t steps = 3) {
  testing::Setting made;
  made.world = world;
  made.config = config + "[monitor.collect]\n";
  made.steps = steps;
  made.types = {testing::type<monitor::Monitor, Collect, NoOptions>("monitor", "collect")};
  return made;
}

struct Outcome {
  testing::TrainResult learnt;
  Steps steps;
};

Outcome run(const testing::Setting& setting) {
  told().clear();
  Outcome out{testing::train(setting), {}};
  out.steps = told();
  return out;
}

// Sums are added up in another order than by one rank, in float64.
constexpr double rounding = 1e-10;

void check_same(const Outcome& mine, const Outcome& reference) {
  CHECK(testing::differences(mine.learnt, reference.learnt, rounding).empty());
  REQUIRE(mine.steps.size() == reference.steps.size());
  for (std::size_t i = 0; i < mine.steps.size(); ++i) {
    for (const auto* name : {"loss_a", "loss_b", "share_a", "share_b"}) {
      INFO(name << " of step " << i);
      REQUIRE(mine.steps[i].contains(name));
      CHECK(std::abs(mine.steps[i].at(name) - reference.steps[i].at(name)) < rounding);
    }
  }
}

}  // namespace

TEST_CASE("the loss of a source is that of its samples alone") {
  const auto mixed = run(setting(halves, 1, 1));
  const auto alone = [](const std::string& data) {
    return run(setting("[data]\nsamples = 12\n" + data + "[train]\nglobal_batch = 12\n", 1, 1)).steps.front();
  };
  const auto a = alone(""), b = alone("length = 13\n");
  const auto& step = mixed.steps.front();
  CHECK(std::abs(step.at("loss_a") - a.at("loss")) < rounding);
  CHECK(std::abs(step.at("loss_b") - b.at("loss")) < rounding);
  CHECK(std::abs(a.at("loss") - b.at("loss")) > 1e-3);
  const auto targets = a.at("target_tokens") + b.at("target_tokens");
  CHECK(step.at("target_tokens") == targets);
  const auto whole = (a.at("loss") * a.at("target_tokens") + b.at("loss") * b.at("target_tokens")) / targets;
  CHECK(std::abs(step.at("loss") - whole) < rounding);
  CHECK(step.at("share_a") + step.at("share_b") == Approx(1));
  CHECK_FALSE(a.contains("loss_a"));
  CHECK_FALSE(a.contains("share_a"));
}

TEST_CASE("a mixture teaches the same on any number of ranks, in rows and packed") {
  for (const std::string more : {"", "packing = true\n"}) {
    auto config = unequal;
    config.insert(config.find("[[data"), more);
    const auto one = run(setting(config));
    check_same(run(setting(config, 2)), one);
    check_same(run(setting(config + "[strategy.fsdp]\nmode = \"full_shard\"\n[train]\naccumulation = 2\n", 4)), one);
  }
}

TEST_CASE("a mixture's losses are whole in stages and where ranks share tokens") {
  const auto config = testing::family_config(testing::families().front()) + unequal;
  const auto one = run(setting(config));
  check_same(run(setting(config + "[strategy.context_parallel]\nsize = 2\nmethod = \"gather\"\n", 2)), one);
  check_same(run(setting(config + "[strategy.pipeline_parallel]\nsize = 2\n[train]\naccumulation = 2\n", 2)), one);
}

TEST_CASE("losses of sources change no gradient, by name, in any family and with what acts on its layers") {
  const auto gradients_stay = [](const std::string& config, int world) {
    INFO(config << " on " << world);
    auto plain = setting(config + "[objective]\nplugin = \"plain\"\n", world, 1);
    plain.types.push_back(testing::type<objective::Objective, Plain, NoOptions>("objective", "plain"));
    const auto reference = testing::train(plain);
    CHECK(reference.gradients.size() > 4);
    CHECK(testing::differences(testing::train(setting(config, world, 1)), reference, rounding) == "");
  };
  const std::string lora = "[strategy.lora]\nrank = 2\nalpha = 4.0\ndropout = 0.1\ntargets = [\"all-linear\"]\n";
  for (const auto& family : testing::families()) {
    const auto config = testing::family_config(family) + unequal;
    gradients_stay(config, 1);
    gradients_stay(config + lora, 1);
    gradients_stay(config + lora + "[strategy.tensor_parallel]\nsize = 2\n", 2);
    gradients_stay(config + "[strategy.tensor_parallel]\nsize = 2\n[strategy.fsdp]\nmode = \"full_shard\"\n", 4);
    gradients_stay(
        config + lora +
            "[strategy.recompute]\nevery = 1\n[strategy.pipeline_parallel]\nsize = 2\n[train]\naccumulation = 2\n",
        2);
  }
}

TEST_CASE("a run on a mixture resumes bit for bit") {
  const auto mixed = setting(unequal, 2, 9);
  CHECK(testing::differences(testing::train_resumed(mixed, 4, mixed), testing::train(mixed), 0).empty());
}

TEST_CASE("weights, stop and the seed decide what is learnt; a weight's scale does not") {
  const auto mixed = setting(unequal, 1, 6);
  CHECK(testing::without_effect(mixed, {"data.sources.1.weight=1.0", "data.stop=first", "data.weights=tokens",
                                        "run.seed=4", "data.eval_fraction=0.2"})
            .empty());
  auto doubled = mixed;
  doubled.overrides = {"data.sources.1.weight=6.0", "data.sources.2.weight=2.0"};
  CHECK(testing::differences(testing::train(doubled), testing::train(mixed), 0).empty());
}

TEST_CASE("a step without a sample of a source has no loss of it") {
  const auto out =
      run(setting("[data]\nplugin = \"mixture\"\nstop = \"steps\"\n[[data.sources]]\nplugin = \"tiny\"\nname = \"a\"\n"
                  "[[data.sources]]\nplugin = \"tiny\"\nname = \"b\"\nweight = 0.001\n"));
  CHECK(out.steps.front().contains("loss_a"));
  CHECK_FALSE(out.steps.front().contains("loss_b"));
  CHECK(out.steps.front().at("share_b") == 0);
}

}  // namespace training_test
