// A head of values, learned from preferences, on ranks that share the model, its samples or their tokens: what one rank
// learns.
#include <ATen/ATen.h>
#include <capstan/objective.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include "support/compositions.h"

namespace values_test {

using namespace capstan;
using namespace capstan::testing;
using capstan::testing::train;  // capstan::train is a namespace, too

namespace {

struct NoOptions {
  static void describe(config::OptionTable<NoOptions>& /*t*/) {}
};

// The value of a pair's first sequence is to be above the second's.
class Preference : public objective::Objective {
 public:
  explicit Preference(const config::Options<NoOptions>& /*options*/) {}
  objective::Plan plan() const override {
    objective::Plan plan;
    plan.passes = {{"reward", nn::HeadOutput::values}};
    plan.counts = {"pairs"};
    plan.terms = {{}};
    plan.figures = {{"margin"}};
    plan.sequences = 2;
    return plan;
  }
  std::vector<double> counts(const data::HostBatch& batch) const override {
    return {static_cast<double>(batch.real_samples)};
  }
  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const override {
    const auto last = outputs.front().select(1, 0).to(at::kDouble) * batch.last_labels();
    const auto pairs = batch.sum_by_sequence(last).view({batch.samples.count, 2});
    const auto margin = pairs.select(1, 0) - pairs.select(1, 1);
    const auto real = batch.has_sample();
    return {{(at::softplus(-margin) * real).sum()}, {(margin * real).sum()}};
  }
};

TrainResult run(int world, const std::string& tables, const std::string& packing = "false") {
  const std::string values = "head_values = 1\n[data]\nsequences = 2\n[objective]\nplugin = \"preference\"\n";
  return train({.world = world,
                .config = family_config(dense()) + values + tables,
                .overrides = {same_micro_steps, "data.packing=" + packing},
                .steps = 3,
                .types = {type<objective::Objective, Preference, NoOptions>("objective", "preference")}});
}

}  // namespace

TEST_CASE("a head of values learns the same however ranks share the model, samples or tokens", "[matrix]") {
  const auto alone = run(1, "");
  CHECK(alone.gradients.at("score.weight").abs().max().item<double>() > 0);
  CHECK_FALSE(alone.weights.contains("lm_head.weight"));
  for (const auto& layout : compositions()) {
    if (layout.needs_experts || layout.world == 1) continue;
    INFO(layout.name);
    CHECK(differences(run(layout.world, layout.strategies), alone, 1e-10) == "");
  }
  CHECK(differences(run(1, "", "true"), alone, 1e-10) == "");
  CHECK(differences(run(2, "[strategy.pipeline_parallel]\nsize = 2\n"), alone, 1e-10) == "");
}

}  // namespace values_test
