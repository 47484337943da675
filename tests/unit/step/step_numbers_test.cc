// A step's numbers in one tensor: what is put in comes out, with strategies' figures as shares.
#include "step/step_numbers.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

namespace step_numbers_test {

using namespace capstan;

namespace {

at::Tensor number(double value) { return at::full({}, value, at::kDouble); }

step::StepNumbers numbers(const at::Tensor& experts, std::vector<strategy::Figure> figures) {
  step::StepNumbers numbers;
  numbers.loss = number(5);
  numbers.auxiliary = number(0.5);
  numbers.expert_tokens = experts;
  numbers.figures = std::move(figures);
  numbers.norms = at::tensor({4.0, 5.0}, at::kDouble);
  numbers.has_auxiliary = true;
  return numbers;
}

step::StepNumbers read(step::StepNumbers numbers) {
  numbers.pack();
  numbers.read();
  return numbers;
}

}  // namespace

TEST_CASE("figures and experts' tokens stand next to each other") {
  const auto both =
      read(numbers(at::tensor({3, 4}, at::kLong),
                   {{"share", number(1), number(4)}, {"", number(2), number(3)}, {"none", number(0), number(0)}}));
  CHECK(both.grad_norm() == 3);
  CHECK(both.loss_sum() == 5);
  CHECK(both.auxiliary_loss() == 0.5);
  CHECK(both.figure_values() == monitor::Values{{"share", 0.25}, {"none", 0}});
  CHECK(at::equal(both.tokens_by_expert(), at::tensor({3.0, 4.0}, at::kDouble)));
  const auto neither = read(numbers({}, {}));
  CHECK(neither.figure_values().empty());
  CHECK(neither.tokens_by_expert().numel() == 0);
}

TEST_CASE("a rank that does not report for its data counts its own figures") {
  auto mine = numbers(at::tensor({3}, at::kLong), {{"share", number(1), number(4)}});
  mine.gives_losses = mine.gives_experts = false;
  const auto silent = read(mine);
  CHECK(silent.loss_sum() == 0);
  CHECK(silent.tokens_by_expert().sum().item<double>() == 0);
  CHECK(silent.figure_values() == monitor::Values{{"share", 0.25}});
  // Where the model is cut into stages, one has the loss, and each its own layers' experts.
  mine.gives_experts = true;
  const auto inner = read(mine);
  CHECK(inner.loss_sum() == 0);
  CHECK(inner.tokens_by_expert().sum().item<double>() == 3);
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

}  // namespace step_numbers_test
