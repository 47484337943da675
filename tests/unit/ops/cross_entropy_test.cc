#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "ops/jacobian.h"

namespace cross_entropy_test {

using namespace capstan::ops;
using capstan::testing::jacobian_error;

namespace {

constexpr std::int64_t rows = 13, hidden_size = 5, vocabulary = 11;

struct Input {
  at::Tensor hidden = at::arange(1, rows* hidden_size + 1, at::kDouble).mul(1.7).sin().mul(2).view({rows, hidden_size});
  at::Tensor weight =
      at::arange(1, vocabulary* hidden_size + 1, at::kDouble).mul(0.9).cos().mul(2).view({vocabulary, hidden_size});
  at::Tensor labels = at::tensor({3, -100, 10, 0, 5, -100, -100, -100, 1, 2, 9, -100, 7}, at::kLong);

  Input to(at::ScalarType type) const {
    Input other = *this;
    other.hidden = hidden.to(type).set_requires_grad(true);
    other.weight = weight.to(type).set_requires_grad(true);
    return other;
  }
};

/// The same in one piece, in float64, by ATen's own functions.
struct Reference {
  at::Tensor loss, hidden, weight;
  explicit Reference(const Input& in, double factor = 1) {
    const at::Tensor h = in.hidden.detach().to(at::kDouble).set_requires_grad(true);
    const at::Tensor w = in.weight.detach().to(at::kDouble).set_requires_grad(true);
    loss = at::cross_entropy_loss(h.mm(w.t()), in.labels, {}, at::Reduction::Sum);
    const auto gradients = torch::autograd::grad({loss * factor}, {h, w});
    hidden = gradients[0];
    weight = gradients[1];
  }
};

double difference(const at::Tensor& a, const at::Tensor& b) {
  return ((a.to(at::kDouble) - b).abs().max() / b.abs().max()).item<double>();
}

}  // namespace

TEST_CASE("chunked cross entropy in float64 equals the plain one at any chunk size") {
  const Input in = Input().to(at::kDouble);
  const Reference expected(in, 0.25);
  for (const std::int64_t chunk : {1, 2, 5, 13, 100}) {
    const at::Tensor loss = chunked_linear_cross_entropy(in.hidden, in.weight, in.labels, chunk);
    const auto gradients = torch::autograd::grad({loss * 0.25}, {in.hidden, in.weight});
    CHECK(loss.dim() == 0);
    CHECK(loss.item<double>() == Approx(expected.loss.item<double>()).epsilon(1e-14));
    CHECK(difference(gradients[0], expected.hidden) < 1e-14);
    CHECK(difference(gradients[1], expected.weight) < 1e-14);
  }
}

TEST_CASE("chunked cross entropy's backward is the Jacobian") {
  const Input in;
  const auto loss = [&](const std::vector<at::Tensor>& x) {
    return chunked_linear_cross_entropy(x[0], x[1], in.labels, 4);
  };
  CHECK(jacobian_error(loss, {in.hidden, in.weight}) < 1e-8);
}

TEST_CASE("logits with a cap are what its tanh makes of them, with the slope in the gradients, at any chunk size") {
  constexpr double cap = 1.5;  // logits are up to 17
  const Input in = Input().to(at::kDouble);
  const auto expected =
      at::cross_entropy_loss(in.hidden.mm(in.weight.t()).div(cap).tanh().mul(cap), in.labels, {}, at::Reduction::Sum);
  const auto plain = torch::autograd::grad({expected}, {in.hidden, in.weight});
  for (const std::int64_t chunk : {1, 5, 100}) {
    const auto loss = chunked_linear_cross_entropy(in.hidden, in.weight, in.labels, chunk, cap);
    const auto gradients = torch::autograd::grad({loss}, {in.hidden, in.weight});
    CHECK(loss.item<double>() == Approx(expected.item<double>()).epsilon(1e-14));
    CHECK(difference(gradients[0], plain[0]) < 1e-14);
    CHECK(difference(gradients[1], plain[1]) < 1e-14);
  }
  const auto capped = [&](const std::vector<at::Tensor>& x) {
    return chunked_linear_cross_entropy(x[0], x[1], in.labels, 4, cap);
  };
  CHECK(jacobian_error(capped, {Input().hidden, Input().weight}) < 1e-8);
}

// float32: sums of at most 13 terms of order 1. 16 bits: the logits' gradient and the results are rounded to 8
// (bfloat16) and 11 (half) bits, half an ulp each, the logits themselves are exact in float32.
TEST_CASE("chunked cross entropy in narrower dtypes is good to their rounding") {
  const double bound[] = {1e-6, 1.0 / 256, 1.0 / 2048};
  const at::ScalarType types[] = {at::kFloat, at::kBFloat16, at::kHalf};
  for (int i = 0; i < 3; ++i) {
    const Input in = Input().to(types[i]);
    const Reference expected(in, 0.3);
    const at::Tensor loss = chunked_linear_cross_entropy(in.hidden, in.weight, in.labels, 4);
    CHECK(loss.scalar_type() == at::kFloat);
    CHECK(loss.item<double>() == Approx(expected.loss.item<double>()).epsilon(1e-6));
    const auto gradients = torch::autograd::grad({loss * 0.3}, {in.hidden, in.weight});
    CHECK(gradients[0].scalar_type() == types[i]);
    CHECK(gradients[1].scalar_type() == types[i]);
    CHECK(difference(gradients[0], expected.hidden) < bound[i]);
    CHECK(difference(gradients[1], expected.weight) < bound[i]);
  }
}

// With V = 2^14 equal logits each probability is 2^-14; times hidden 2^-10 a product only in half would be below its
// smallest number, 2^-24.
TEST_CASE("half keeps small probabilities and sums the weight's gradient in float32") {
  const std::int64_t large = 1 << 14, count = 4096;
  const at::Tensor hidden = at::ones({count, 1}, at::kHalf);
  const at::Tensor weight = at::zeros({large, 1}, at::kHalf).set_requires_grad(true);
  const at::Tensor labels = at::zeros({count}, at::kLong);
  const at::Tensor loss = chunked_linear_cross_entropy(hidden, weight, labels, 1024);
  CHECK(loss.item<double>() == Approx(count * std::log(static_cast<double>(large))).epsilon(1e-6));
  const at::Tensor gradient = torch::autograd::grad({loss}, {weight})[0];
  // 4096 times 2^-14; added one by one in half the sum would stop growing at 2^-3.
  CHECK(at::equal(gradient.slice(0, 1), at::full({large - 1, 1}, 0.25, at::kHalf)));
}

TEST_CASE("rows that are no targets add nothing") {
  Input in = Input().to(at::kDouble);
  const at::Tensor loss = chunked_linear_cross_entropy(in.hidden, in.weight, in.labels, 3);
  const auto gradients = torch::autograd::grad({loss}, {in.hidden, in.weight});
  CHECK(gradients[0].index({in.labels.eq(ignored_label)}).abs().max().item<double>() == 0);
  in.labels.fill_(ignored_label);
  const at::Tensor nothing = chunked_linear_cross_entropy(in.hidden, in.weight, in.labels, 3);
  CHECK(nothing.item<double>() == 0);
  for (const at::Tensor& gradient : torch::autograd::grad({nothing}, {in.hidden, in.weight})) {
    CHECK(gradient.abs().max().item<double>() == 0);
  }
}

TEST_CASE("large logits do not overflow") {
  const at::Tensor hidden = at::full({1, 1}, 1000.0, at::kFloat).set_requires_grad(true);
  const at::Tensor weight = at::tensor({1.0F, 2.0F, -3.0F}).view({3, 1});
  const at::Tensor loss = chunked_linear_cross_entropy(hidden, weight, at::zeros({1}, at::kLong), 1);
  CHECK(loss.item<float>() == 1000);
  CHECK(torch::autograd::grad({loss}, {hidden})[0].item<float>() == 1);  // softmax is on the second: 2 - 1
}

TEST_CASE("only gradients that are asked for are made") {
  Input in = Input().to(at::kDouble);
  const Reference expected(in);
  const at::Tensor frozen = in.weight.detach();
  const at::Tensor loss = chunked_linear_cross_entropy(in.hidden, frozen, in.labels, 4);
  CHECK(difference(torch::autograd::grad({loss}, {in.hidden})[0], expected.hidden) < 1e-14);
  const at::Tensor head = chunked_linear_cross_entropy(in.hidden.detach(), in.weight, in.labels, 4);
  CHECK(difference(torch::autograd::grad({head}, {in.weight})[0], expected.weight) < 1e-14);
  const at::NoGradGuard no_grad;
  const at::Tensor plain = chunked_linear_cross_entropy(in.hidden, in.weight, in.labels, 4);
  CHECK_FALSE(plain.requires_grad());
  CHECK(plain.item<double>() == Approx(expected.loss.item<double>()).epsilon(1e-14));
}

TEST_CASE("the loss may be used twice") {
  const Input in = Input().to(at::kDouble);
  const at::Tensor loss = chunked_linear_cross_entropy(in.hidden, in.weight, in.labels, 4);
  const auto first = torch::autograd::grad({loss}, {in.weight}, {}, true)[0];
  CHECK(at::equal(torch::autograd::grad({loss * 2}, {in.weight})[0], first * 2));
}

TEST_CASE("cross entropy on the meta device has the shapes") {
  const auto meta = at::TensorOptions(at::kBFloat16).device(at::kMeta);
  const at::Tensor hidden = at::empty({6, 4}, meta).set_requires_grad(true);
  const at::Tensor weight = at::empty({9, 4}, meta).set_requires_grad(true);
  const at::Tensor loss = chunked_linear_cross_entropy(hidden, weight, at::empty({6}, meta.dtype(at::kLong)), 4);
  CHECK(loss.scalar_type() == at::kFloat);
  const auto gradients = torch::autograd::grad({loss}, {hidden, weight});
  CHECK(gradients[0].sizes() == hidden.sizes());
  CHECK(gradients[1].sizes() == weight.sizes());
}

}  // namespace cross_entropy_test
