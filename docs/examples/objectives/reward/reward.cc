// A reward model (Ouyang et al. 2022): the value of a preferred answer is to be above that of a rejected one. A model
// with a head of values, such as a decoder's with head_values = 1, gives them.
#include <ATen/ATen.h>
#include <capstan/objective.h>

#include <utility>
#include <vector>

namespace {

using namespace capstan;

struct RewardOptions {
  double margin = 0;
  static void describe(config::OptionTable<RewardOptions>& t) {
    t.add("margin", &RewardOptions::margin).min(0).doc("by how much the preferred answer's value is to be above");
  }
};

class Reward : public objective::Objective {
 public:
  explicit Reward(config::Options<RewardOptions> options) : options_(std::move(options)) {}

  objective::Plan plan() const override {
    objective::Plan plan;
    plan.passes = {{"reward", nn::HeadOutput::values}};
    plan.counts = {"pairs"};
    plan.terms = {{}};
    plan.figures = {{"accuracy", 0, objective::Better::higher}};
    plan.sequences = 2;
    plan.meaning = "a preferred answer and a rejected one";
    return plan;
  }

  std::vector<double> counts(const data::HostBatch& batch) const override {
    return {static_cast<double>(batch.real_samples)};
  }

  // A sequence's value is that of its last position with a label, which has seen all but the end token.
  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const override {
    const auto last = outputs.front().select(1, 0).to(at::kDouble) * batch.last_labels();
    const auto pairs = batch.sum_by_sequence(last).view({batch.samples.count, 2});
    const auto above = pairs.select(1, 0) - pairs.select(1, 1);
    const auto real = batch.has_sample().to(at::kDouble);
    return {{(at::softplus(options_->margin - above) * real).sum()}, {(above.gt(0) * real).sum()}};
  }

 private:
  config::Options<RewardOptions> options_;
};

}  // namespace

CAPSTAN_OBJECTIVE("reward", "0.1.0", "a value above another one: reward models", Reward, RewardOptions)
