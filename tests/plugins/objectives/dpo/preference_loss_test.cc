#include "plugins/objectives/dpo/preference_loss.h"

#include <ATen/ATen.h>
#include <capstan/ops/label_log_probabilities.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>
#include <string>
#include <vector>

#include "ops/jacobian.h"
#include "predict/door.h"

namespace preference_loss_test {

using dpo::Loss;
using dpo::Pairs;
using dpo::Preference;
using dpo::preference_loss;

namespace {

struct Expected {
  std::string name;
  Preference preference;
  double loss;
  std::vector<double> figures;   ///< chosen and rejected rewards, how many are right
  std::vector<double> gradient;  ///< by answer, chosen and rejected in turn
};

#include "trl_values.inc"

at::Tensor in_pairs(const std::vector<double>& values) { return at::tensor(values, at::kDouble).view({-1, 2}); }

Pairs pairs(const Preference& preference, const at::Tensor& policy) {
  return {policy, preference.needs_reference() ? in_pairs(reference_sums) : at::Tensor(), in_pairs(answer_tokens)};
}

std::vector<Preference> all_losses() {
  std::vector<Preference> list;
  for (const auto& one : expected_of_trl) list.push_back(one.preference);
  list.push_back({.loss = Loss::sigmoid, .beta = 0.3, .label_smoothing = 0.1});
  list.push_back({.loss = Loss::ipo, .beta = 0.2, .per_token = false});
  return list;
}

double sigma(double x) { return 1 / (1 + std::exp(-x)); }

double loss_of_one(const Preference& preference, double chosen, double rejected, double tokens) {
  Pairs one{at::tensor({chosen, rejected}, at::kDouble).view({1, 2}), {}, at::full({1, 2}, tokens, at::kDouble)};
  if (preference.needs_reference()) one.reference = at::zeros({1, 2}, at::kDouble);
  return preference_loss(preference, one).loss.item<double>();
}

}  // namespace

// TRL computes orpo's odds in float32.
TEST_CASE("losses, their gradients and the rewards are TRL's") {
  for (const auto& expected : expected_of_trl) {
    INFO(expected.name);
    const double tolerance = expected.preference.loss == Loss::orpo ? 1e-6 : 1e-12;
    const auto policy = in_pairs(policy_sums).set_requires_grad(true);
    const auto found = preference_loss(expected.preference, pairs(expected.preference, policy));
    CHECK(found.loss.item<double>() == Approx(expected.loss).epsilon(tolerance));
    CHECK(found.chosen_reward.item<double>() == Approx(expected.figures[0]).epsilon(tolerance));
    CHECK(found.rejected_reward.item<double>() == Approx(expected.figures[1]).epsilon(tolerance));
    CHECK(found.correct.item<double>() == expected.figures[2]);
    const auto gradient = torch::autograd::grad({found.loss}, {policy})[0];
    CHECK((gradient - in_pairs(expected.gradient)).abs().max().item<double>() < tolerance);
    CHECK_FALSE(found.chosen_reward.requires_grad());
  }
}

TEST_CASE("the backward of each preference loss is the Jacobian") {
  for (const auto& preference : all_losses()) {
    const auto loss = [&](const std::vector<at::Tensor>& in) {
      return preference_loss(preference, pairs(preference, in[0])).loss;
    };
    CHECK(capstan::testing::jacobian_error(loss, {in_pairs(policy_sums)}) < 1e-8);
  }
}

TEST_CASE("the preference losses are the papers' formulae") {
  const double w = -3, l = -5, beta = 0.4, n = 4;
  const double margin = beta * (w - l);
  CHECK(loss_of_one({.loss = Loss::sigmoid, .beta = beta, .label_smoothing = 0.1}, w, l, n) ==
        Approx(-0.9 * std::log(sigma(margin)) - 0.1 * std::log(sigma(-margin))));
  CHECK(loss_of_one({.loss = Loss::ipo, .beta = beta, .per_token = false}, w, l, n) ==
        Approx(std::pow(w - l - 1 / (2 * beta), 2)));
  CHECK(loss_of_one({.loss = Loss::ipo, .beta = beta}, w, l, n) == Approx(std::pow((w - l) / n - 1 / (2 * beta), 2)));
  CHECK(loss_of_one({.loss = Loss::simpo, .beta = beta, .gamma = 0.7}, w, l, n) ==
        Approx(-std::log(sigma(margin / n - 0.7))));
  const double p = std::exp(w / n), q = std::exp(l / n);
  CHECK(loss_of_one({.loss = Loss::orpo, .lambda = 0.3}, w, l, n) ==
        Approx(-w / n - 0.3 * std::log(sigma(std::log(p / (1 - p) / (q / (1 - q)))))));
}

TEST_CASE("margins beyond what exp can hold, and answers that are certain, leave losses and gradients finite") {
  for (const auto& preference : all_losses()) {
    for (const auto type : {at::kDouble, at::kFloat}) {
      const auto policy = at::tensor({0.0, -4000.0, -4000.0, 0.0, 0.0, 0.0}, type).view({3, 2}).set_requires_grad(true);
      Pairs extreme{policy, {}, at::full({3, 2}, 3, at::kLong)};
      if (preference.needs_reference()) extreme.reference = at::zeros({3, 2}, type);
      const auto loss = preference_loss(preference, extreme).loss;
      CHECK(loss.scalar_type() == type);
      CHECK(std::isfinite(loss.item<double>()));
      CHECK(torch::autograd::grad({loss}, {policy})[0].isfinite().all().item<bool>());
    }
  }
}

TEST_CASE("an answer without tokens divides by no zero") {
  CHECK(std::isfinite(loss_of_one({.loss = Loss::simpo}, 0, -3, 0)));
  CHECK(std::isfinite(loss_of_one({.loss = Loss::ipo}, 0, -3, 0)));
}

TEST_CASE("a reference where a loss needs none, or none where it needs one, is a bug") {
  const auto policy = in_pairs(policy_sums), tokens = in_pairs(answer_tokens);
  CHECK_THROWS_AS(preference_loss({.loss = Loss::sigmoid}, {policy, {}, tokens}), std::logic_error);
  CHECK_THROWS_AS(preference_loss({.loss = Loss::simpo}, {policy, policy, tokens}), std::logic_error);
}

TEST_CASE("from hidden states to a preference loss: the Jacobian, and the shapes on the meta device") {
  (void)capstan::predict::door();  // has the meta kernels that ATen has only in Python
  // Two pairs; answers of 2, 1, 1 and 2 tokens, and a row without a label.
  const auto labels = at::tensor({3, 0, 2, 4, -100, 1, 1}, at::kLong);
  const auto sequence = at::tensor({0, 0, 1, 2, 2, 3, 3}, at::kLong);
  const auto tokens = at::tensor({2, 1, 1, 2}, at::kLong).view({2, 2});
  const auto reference = at::tensor({-2.5, -1.0, -1.5, -3.0}, at::kDouble).view({2, 2});
  const auto hidden = at::arange(21, at::kDouble).mul(1.3).sin().view({7, 3});
  const auto weight = at::arange(15, at::kDouble).mul(0.7).cos().view({5, 3});
  for (const auto& preference : all_losses()) {
    const auto loss = [&](const std::vector<at::Tensor>& in) {
      const auto here = [&](const at::Tensor& x) { return x.to(in[0].device()); };
      const auto rows = capstan::ops::chunked_label_log_probabilities(in[0], in[1], here(labels), 4);
      Pairs all{at::zeros({4}, rows.options()).index_add(0, here(sequence), rows).view({2, 2}), {}, here(tokens)};
      if (preference.needs_reference()) all.reference = here(reference);
      return preference_loss(preference, all).loss;
    };
    CHECK(capstan::testing::jacobian_error(loss, {hidden, weight}) < 1e-8);
    const std::vector<at::Tensor> shapes{hidden.to(at::kMeta).set_requires_grad(true),
                                         weight.to(at::kMeta).set_requires_grad(true)};
    const auto gradients = torch::autograd::grad({loss(shapes)}, shapes);
    for (std::size_t i = 0; i < shapes.size(); ++i) CHECK(gradients[i].sizes() == shapes[i].sizes());
  }
}

// `check` predicts memory with tensors of which only shapes exist, and says nothing of activations where an operator
// has no shape rule.
TEST_CASE("losses have shapes on the meta device, also where some rows are no pairs") {
  const auto meta = at::TensorOptions().device(at::kMeta).dtype(at::kFloat);
  for (const auto& preference : all_losses()) {
    Pairs pairs{at::empty({3, 2}, meta), {}, at::empty({3, 2}, meta), at::empty({3}, meta.dtype(at::kBool))};
    if (preference.needs_reference()) pairs.reference = at::empty({3, 2}, meta);
    const auto found = preference_loss(preference, pairs);
    CHECK(found.loss.is_meta());
    CHECK(found.correct.dim() == 0);
  }
}

}  // namespace preference_loss_test
