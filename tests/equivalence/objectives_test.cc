// Objectives x ways to share a model x packing: losses and gradients by name are one rank's with a sequence a row.
#include <ATen/ATen.h>
#include <capstan/objective.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <cmath>
#include <map>
#include <utility>

#include "support/compositions.h"

namespace objectives_test {

using namespace capstan;
using namespace capstan::testing;
using capstan::testing::train;  // capstan::train is a namespace, too

namespace {

// The first step has no state and no recorded order of units, the second makes both, and the third uses them.
constexpr std::int64_t steps = 3;
constexpr double tolerance = 1e-10;

struct WeightedOptions {
  std::string fault = "none";
  static void describe(config::OptionTable<WeightedOptions>& t) { t.add("fault", &WeightedOptions::fault).doc(""); }
};

// Uses a field of each kind, two terms with counts of their own, and figures.
class Weighted : public objective::Objective {
 public:
  explicit Weighted(config::Options<WeightedOptions> options) : options_(std::move(options)) {}

  objective::Plan plan() const override {
    using data::FieldSpec;
    objective::Plan plan;
    plan.passes = {{"model", nn::HeadOutput::log_probabilities}};
    plan.counts = {"weight", "samples"};
    plan.terms = {{1.0, 0}, {0.5, 1}};
    plan.figures = {{"mean_reward", 1}};
    plan.sequences = 2;
    plan.fields = {{"weight", FieldSpec::Type::float32, FieldSpec::Per::token},
                   {"reward", FieldSpec::Type::float32, FieldSpec::Per::sequence},
                   {"group", FieldSpec::Type::int64, FieldSpec::Per::sample}};
    return plan;
  }

  std::vector<double> counts(const data::HostBatch& batch) const override {
    const auto& weights = std::get<std::vector<float>>(batch.fields[0].values);
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i)
      sum += batch.labels[i] == data::ignored_label ? 0.0 : std::abs(static_cast<double>(weights[i]));
    return {sum, static_cast<double>(batch.real_samples)};
  }

  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const override {
    auto weights = batch.field("weight").to(at::kDouble);
    if (options_->fault == "weight") weights = weights.roll({1}, {1});
    auto rewards = batch.field("reward").to(at::kDouble);
    if (options_->fault == "reward") rewards = rewards.flip(0);
    auto groups = batch.field("group").to(at::kDouble) + 1;
    if (options_->fault == "group") groups = groups.roll({1}, {0});
    auto chosen = weights.flatten();
    if (batch.loss_rows.defined()) chosen = chosen.index_select(0, batch.loss_rows);
    const auto& log_p = outputs.front();
    const auto pairs = (batch.sum_by_sequence(log_p) * rewards).view({batch.samples.count, 2});
    const auto real = batch.has_sample();
    return {
        {(chosen.abs() * log_p).sum().neg(), ((pairs.select(1, 0) - pairs.select(1, 1)).tanh() * groups * real).sum()},
        {(rewards.view({-1, 2}).sum(1) * real).sum()}};
  }

 private:
  config::Options<WeightedOptions> options_;
};

struct Case {
  std::string name;
  std::string tables;
  bool adapters;
};

const std::string pairs = "[data]\nsequences = 2\n";
const std::string fields =
    pairs + "fields = [\"weight float32 token\", \"reward float32 sequence\", \"group int64 sample\"]\n";
const std::string lora =
    "[strategy.lora]\nrank = 3\nalpha = 5\ninit = \"random\"\ndropout = 0.1\ntargets = [\"linear_qkv\", "
    "\"linear_proj\"]\n";

const std::vector<Case> cases{
    {"weighted", fields + "[objective]\nplugin = \"weighted\"\n", false},
    {"dpo, base", pairs + "[objective]\nplugin = \"dpo\"\nbeta = 0.5\nlabel_smoothing = 0.1\n", true},
    {"dpo, data",
     pairs + "fields = [\"reference_log_probability float32 sequence\"]\n[objective]\nplugin = \"dpo\"\nloss = "
             "\"ipo\"\nreference = \"data\"\n",
     false},
    {"orpo", pairs + "[objective]\nplugin = \"dpo\"\nloss = \"orpo\"\nlambda = 0.3\n", true}};

Setting setting(const Family& family, const Case& objective, const Composition& layout, bool packs,
                const std::string& accumulation = same_micro_steps) {
  return {.world = layout.world,
          .config = family_config(family) + objective.tables + (objective.adapters ? lora : "") + layout.strategies,
          .overrides = {accumulation, packs ? "data.packing=true" : "data.packing=false"},
          .steps = steps,
          .types = {type<objective::Objective, Weighted, WeightedOptions>("objective", "weighted")}};
}

const TrainResult& alone(const Family& family, const Case& objective) {
  static std::map<std::string, TrainResult> runs;
  const auto key = family.plugin + objective.name;
  if (!runs.contains(key)) runs[key] = train(setting(family, objective, compositions().front(), false));
  return runs.at(key);
}

// Each layout with an objective, packed or not; the next family begins elsewhere.
void check(const Family& family, std::size_t next) {
  for (const auto& layout : compositions()) {
    if (layout.needs_experts && family.plugin != "mixtral") continue;
    const auto& objective = cases[next % cases.size()];
    const bool packs = next / cases.size() % 2 == 0;
    ++next;
    INFO(family.plugin << ", " << objective.name << ", " << layout.name << (packs ? ", packed" : ""));
    CHECK(differences(train(setting(family, objective, layout, packs)), alone(family, objective), tolerance) == "");
  }
}

}  // namespace

TEST_CASE("float64: objectives on every layout of a dense model", "[matrix][train]") { check(dense(), 0); }

TEST_CASE("float64: objectives on every layout of a mixture", "[matrix][train]") { check(mixture(), 1); }

TEST_CASE("float64: objectives where ranks share the tokens of a pair", "[matrix][train]") {
  for (const auto& objective : cases) {
    for (const bool packs : {false, true}) {
      const Composition layout{"CP 2 x zero 2", 4,
                               "[strategy.context_parallel]\nsize = 2\n[strategy.zero]\nstage = 2\n"};
      INFO(objective.name << (packs ? ", packed" : ""));
      CHECK(differences(train(setting(dense(), objective, layout, packs)), alone(dense(), objective), tolerance) == "");
    }
  }
}

TEST_CASE("float64: objectives give the same for any accumulation, packed or not", "[matrix][train]") {
  for (const auto& objective : cases) {
    for (const bool packs : {false, true}) {
      INFO(objective.name << (packs ? ", packed" : ""));
      const auto& one = compositions().front();
      const auto run = train(setting(dense(), objective, one, packs, "train.accumulation=8"));
      CHECK(differences(run, alone(dense(), objective), tolerance) == "");
    }
  }
}

TEST_CASE("objectives learn: the first step's gradients are not those of the next token's cross entropy") {
  const auto plain =
      train({.world = 1, .config = family_config(dense()) + pairs, .overrides = {same_micro_steps}, .steps = steps});
  for (const auto& objective : cases) {
    if (objective.adapters) continue;
    INFO(objective.name);
    CHECK(differences(alone(dense(), objective), plain, 1e-3) != "");
    auto longer = setting(dense(), objective, compositions().front(), false);
    longer.steps = 4;
    const auto losses = train(longer).losses;
    CHECK(losses.back() < losses.front());
  }
}

TEST_CASE("a fault in one field of a batch is seen") {
  for (const std::string fault : {"weight", "reward", "group"}) {
    INFO(fault);
    auto faulty = setting(dense(), cases.front(), compositions()[1], true);
    faulty.overrides.push_back("objective.fault=" + fault);
    CHECK(differences(train(faulty), alone(dense(), cases.front()), tolerance) != "");
  }
}

TEST_CASE("float64: pairs learn in steps sorted by length what they learn as they are drawn", "[matrix][train]") {
  for (const auto& objective : cases) {
    for (const auto* strategies : {"", "[strategy.pipeline_parallel]\nsize = 2\n", "[strategy.fsdp]\n"}) {
      INFO(objective.name << ", " << strategies);
      const Composition layout{"", std::string(strategies).empty() ? 1 : 2, strategies};
      auto sorted = setting(dense(), objective, layout, false, "train.accumulation=4");
      sorted.overrides.emplace_back("train.sort_by_length=true");
      CHECK(differences(train(sorted), alone(dense(), objective), tolerance) == "");
    }
  }
}

}  // namespace objectives_test
