// A step's numbers in one tensor: what is put in comes out, with strategies' figures as shares.
#include "step/step_metrics.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

namespace step_metrics_test {

using namespace capstan;

namespace {

at::Tensor number(double value) { return at::full({}, value, at::kDouble); }

step::StepSums sums(const at::Tensor& experts, const at::Tensor& figures) {
  return {number(9), number(5), number(0.5), experts, figures};
}

}  // namespace

TEST_CASE("figures and experts' tokens stand next to each other") {
  const auto experts = at::tensor({3, 4}, at::kLong);
  const auto figures = at::tensor({1.0, 4.0, 0.0, 0.0}, at::kDouble).view({2, 2});
  const auto both = step::StepNumbers(sums(experts, figures), {}).read();
  CHECK(both.grad_norm == 3);
  CHECK(both.loss_sum == 5);
  CHECK(both.auxiliary_loss == 0.5);
  CHECK(both.figures == std::vector<double>{0.25, 0});
  CHECK(at::equal(both.expert_tokens, at::tensor({3.0, 4.0}, at::kDouble)));
  const auto neither = step::StepNumbers(sums({}, {}), {}).read();
  CHECK(neither.figures.empty());
  CHECK(neither.expert_tokens.numel() == 0);
}

TEST_CASE("a rank that does not report for its data counts its own figures") {
  const auto figures = at::tensor({1.0, 4.0}, at::kDouble).view({1, 2});
  const auto silent = step::StepNumbers(sums(at::tensor({3}, at::kLong), figures), {false, false}).read();
  CHECK(silent.loss_sum == 0);
  CHECK(silent.expert_tokens.sum().item<double>() == 0);
  CHECK(silent.figures == std::vector<double>{0.25});
  // Where the model is cut into stages, one has the loss, and each its own layers' experts.
  const auto inner = step::StepNumbers(sums(at::tensor({3}, at::kLong), figures), {false, true}).read();
  CHECK(inner.loss_sum == 0);
  CHECK(inner.expert_tokens.sum().item<double>() == 3);
}

TEST_CASE("what experts computed: over layers by expert, and the busiest against its layer's mean") {
  monitor::Values values{{"before", 1.0}};
  step::add_expert_load(values, at::tensor({4.0, 0.0, 2.0, 1.0, 3.0, 2.0}, at::kDouble).view({2, 3}));
  const monitor::Values expected{{"before", 1.0},
                                 {"expert_tokens_0", 5.0},
                                 {"expert_tokens_1", 3.0},
                                 {"expert_tokens_2", 4.0},
                                 {"expert_load_max", 2.0}};
  CHECK(values == expected);
  monitor::Values even;
  step::add_expert_load(even, at::full({2, 4}, 6.0, at::kDouble));
  CHECK(even.back().second == 1.0);
  monitor::Values nothing;
  step::add_expert_load(nothing, at::zeros({1, 4}, at::kDouble));
  CHECK(nothing.back().second == 0.0);
  monitor::Values dense;
  step::add_expert_load(dense, at::empty({0}, at::kDouble));
  CHECK(dense.empty());
}

}  // namespace step_metrics_test
