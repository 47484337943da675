#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "models/qwen3_5/causal_convolution.h"
#include "ops/jacobian.h"

namespace causal_convolution_test {

using namespace qwen3_5;
using capstan::testing::jacobian_error;

namespace {

at::Tensor numbers(const std::vector<std::int64_t>& shape, double phase) {
  return at::arange(1, c10::multiply_integers(shape) + 1, at::kDouble).mul(0.7).add(phase).sin().view(shape);
}

// PyTorch's own.
at::Tensor expected(const at::Tensor& x, const at::Tensor& w) {
  const auto before = w.size(-1) - 1;
  const auto sums = at::conv1d(x.transpose(1, 2), w, {}, 1, before, 1, w.size(0)).narrow(2, 0, x.size(1));
  return at::silu(sums).transpose(1, 2);
}

double apart(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

}  // namespace

TEST_CASE("the causal convolution is PyTorch's, with SiLU of it") {
  for (const std::int64_t length : {1, 2, 9}) {
    const auto x = numbers({2, length, 5}, 0.1), w = numbers({5, 1, 4}, 0.2);
    CHECK(apart(causal_convolution(x, w), expected(x, w)) < 1e-14);
  }
}

TEST_CASE("the last token of a window is the convolution's last") {
  const auto x = numbers({2, 9, 5}, 0.1), w = numbers({5, 1, 4}, 0.2);
  CHECK(apart(convolved_last(x.narrow(1, 5, 4), w), causal_convolution(x, w).narrow(1, 8, 1)) < 1e-14);
}

TEST_CASE("the causal convolution's backward is the Jacobian, with and without several sequences in a row") {
  const auto positions = at::tensor({0, 1, 2, 0, 0, 1, 2}, at::kLong).expand({2, 7});
  for (const auto& seen : {at::Tensor(), positions}) {
    const auto function = [&](const std::vector<at::Tensor>& x) { return causal_convolution(x[0], x[1], seen); };
    CHECK(jacobian_error(function, {numbers({2, 7, 3}, 0.1), numbers({3, 1, 4}, 0.2)}) < 1e-8);
    CHECK(jacobian_error(function, {numbers({2, 7, 2}, 0.1), numbers({2, 1, 2}, 0.2)}) < 1e-8);
  }
}

TEST_CASE("sequences in one row are convolved as each is by itself") {
  const auto x = numbers({1, 10, 3}, 0.1), w = numbers({3, 1, 4}, 0.2);
  const auto positions = at::tensor({0, 1, 2, 3, 4, 0, 0, 1, 2, 3}, at::kLong).view({1, 10});
  const auto alone = at::cat({causal_convolution(x.narrow(1, 0, 5), w), causal_convolution(x.narrow(1, 5, 1), w),
                              causal_convolution(x.narrow(1, 6, 4), w)},
                             1);
  CHECK(at::equal(causal_convolution(x, w, positions), alone));
}

TEST_CASE("the causal convolution of 16-bit numbers is float32's, rounded once") {
  const auto x = numbers({2, 9, 5}, 0.1).to(at::kBFloat16).set_requires_grad(true);
  const auto w = numbers({5, 1, 4}, 0.2).to(at::kBFloat16);
  const auto wide = x.detach().to(at::kFloat).set_requires_grad(true);
  const auto out = causal_convolution(x, w), whole = causal_convolution(wide, w.to(at::kFloat));
  CHECK(at::equal(out, whole.to(at::kBFloat16)));
  const auto gradient = numbers({2, 9, 5}, 0.3).to(at::kBFloat16);
  const auto got = torch::autograd::grad({out}, {x}, {gradient})[0];
  CHECK(at::equal(got, torch::autograd::grad({whole}, {wide}, {gradient.to(at::kFloat)})[0].to(at::kBFloat16)));
}

}  // namespace causal_convolution_test
