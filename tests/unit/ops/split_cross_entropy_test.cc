// The loss over a vocabulary that is split, against the one that is whole.
#include <ATen/ATen.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/split_vocabulary.h"

namespace split_cross_entropy_test {

using namespace capstan;

namespace {

constexpr std::int64_t words = 11;

struct Result {
  at::Tensor loss;
  at::Tensor hidden;  ///< gradient
  at::Tensor weight;
};

struct Inputs {
  at::Tensor hidden;
  at::Tensor weight;
  at::Tensor labels;
};

Inputs inputs(at::ScalarType type) {
  const auto doubles = at::TensorOptions().dtype(at::kDouble);
  Inputs in;
  in.hidden = at::sin(at::arange(9 * 5, doubles)).view({9, 5}).to(type);
  in.weight = at::cos(at::arange(words * 5, doubles) * 0.7).view({words, 5}).mul(3).to(type);
  in.labels = at::tensor({0, 10, -100, 5, 6, 3, -100, 7, 2}, at::kLong);  // on every rank, at parts' edges, and none
  return in;
}

Result whole(const Inputs& in, std::optional<double> cap = {}) {
  auto hidden = in.hidden.clone().set_requires_grad(true), weight = in.weight.clone().set_requires_grad(true);
  const auto loss = ops::chunked_linear_cross_entropy(hidden, weight, in.labels, 4, cap);
  (loss * 0.5).backward();
  return {loss.detach(), hidden.grad(), weight.grad()};
}

Result split(const Inputs& in, int ranks, std::optional<double> cap = {}) {
  const auto all = testing::on_split_vocabulary(in.hidden, in.weight, ranks, [&](const auto& part, const auto& piece) {
    auto hidden = in.hidden.clone().set_requires_grad(true);
    auto weight = in.weight.narrow(0, piece.begin, piece.length).clone().set_requires_grad(true);
    const auto loss = ops::split_linear_cross_entropy(hidden, weight, in.labels, 4, part, cap);
    (loss * 0.5).backward();
    return std::vector<at::Tensor>{loss.detach(), hidden.grad(), weight.grad()};
  });
  return {all[0], all[1], all[2]};
}

double apart(const at::Tensor& a, const at::Tensor& b) {
  return (a - b).abs().max().item<double>() / b.abs().max().item<double>();
}

}  // namespace

TEST_CASE("the loss and its gradients do not depend on how the vocabulary is split") {
  const int ranks = GENERATE(1, 2, 3, 4);
  INFO(ranks << " ranks");
  // Sums of 11 words in another order.
  for (const auto& [type, tolerance] : {std::pair{at::kDouble, 1e-14}, std::pair{at::kFloat, 1e-6}}) {
    const auto in = inputs(type);
    for (const auto& cap : {std::optional<double>(), std::optional(1.5)}) {
      const auto one = whole(in, cap), parts = split(in, ranks, cap);
      CHECK(apart(parts.loss, one.loss) <= tolerance);
      CHECK(apart(parts.hidden, one.hidden) <= tolerance);
      CHECK(apart(parts.weight, one.weight) <= tolerance);
    }
  }
}

TEST_CASE("16-bit inputs: every rank's part is rounded once") {
  const auto in = inputs(at::kBFloat16);
  const auto one = whole(in), parts = split(in, 3);
  CHECK(apart(parts.loss, one.loss) <= 1e-6);           // float32
  CHECK(apart(parts.weight, one.weight) <= 1.0 / 256);  // one rounding to 8 bits, of nearly equal numbers
  CHECK(apart(parts.hidden, one.hidden) <= 4.0 / 256);  // three parts, each rounded, and their sum
}

TEST_CASE("labels of which none is a target give zero") {
  auto in = inputs(at::kDouble);
  in.labels.fill_(ops::ignored_label);
  const auto parts = split(in, 2);
  CHECK(parts.loss.item<double>() == 0);
  CHECK(parts.hidden.abs().max().item<double>() == 0);
  CHECK(parts.weight.abs().max().item<double>() == 0);
}

}  // namespace split_cross_entropy_test
