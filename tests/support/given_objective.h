#pragma once
#include <ATen/ATen.h>
#include <capstan/objective/objective.h>

#include <utility>
#include <vector>

namespace capstan::testing {

// As its plan says, unless a test changes what it gives.
class Given : public objective::Objective {
 public:
  explicit Given(objective::Plan plan) : plan_(std::move(plan)) {}
  objective::Plan plan() const override { return plan_; }
  std::vector<double> counts(const data::HostBatch& /*batch*/) const override { return {3, 5}; }
  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& batch) const override {
    seen = {outputs, batch};
    return given;
  }

  objective::Sums given{{at::ones({}), at::ones({})}, {}};
  mutable std::pair<std::vector<at::Tensor>, nn::Batch> seen;

 private:
  objective::Plan plan_;
};

// A reference, then what is trained.
inline objective::Plan reference_and_policy() {
  objective::Plan plan;
  plan.passes = {{"reference", nn::HeadOutput::log_probabilities, false, false},
                 {"policy", nn::HeadOutput::log_probabilities}};
  plan.counts = {"pairs", "tokens"};
  plan.terms = {{2.0, 1}, {0.5, 0}};
  return plan;
}

}  // namespace capstan::testing
