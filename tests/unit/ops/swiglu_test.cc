#include <ATen/ATen.h>
#include <capstan/ops/swiglu.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "ops/jacobian.h"

namespace swiglu_test {

using namespace capstan::ops;
using capstan::testing::jacobian_error;

namespace {

at::Tensor numbers(const std::vector<std::int64_t>& shape) {
  return at::arange(1, c10::multiply_integers(shape) + 1, at::kDouble).mul(0.7).sin().mul(4).view(shape);
}

}  // namespace

TEST_CASE("swiglu is silu(gate) times up") {
  const at::Tensor x = numbers({3, 5, 14}), out = swiglu(x);
  REQUIRE(out.sizes() == at::IntArrayRef({3, 5, 7}));
  const auto in = x.accessor<double, 3>(), got = out.accessor<double, 3>();
  for (std::int64_t i = 0; i < 3; ++i) {
    for (std::int64_t j = 0; j < 5; ++j) {
      for (std::int64_t k = 0; k < 7; ++k) {
        const double a = in[i][j][k];
        CHECK(got[i][j][k] == Approx(a / (1 + std::exp(-a)) * in[i][j][7 + k]).epsilon(1e-14).margin(1e-15));
      }
    }
  }
}

TEST_CASE("swiglu's backward is the Jacobian") {
  const auto function = [](const std::vector<at::Tensor>& x) { return swiglu(x[0]); };
  CHECK(jacobian_error(function, {numbers({3, 2, 10})}) < 1e-8);
}

TEST_CASE("swiglu of 16-bit numbers is float32's, rounded once, forward and backward") {
  const at::Tensor x = numbers({6, 10}).to(at::kBFloat16).set_requires_grad(true);
  const at::Tensor wide = x.detach().to(at::kFloat).set_requires_grad(true);
  const at::Tensor out = swiglu(x), expected = swiglu(wide);
  CHECK(at::equal(out, expected.to(at::kBFloat16)));
  const at::Tensor gradient = numbers({6, 5}).to(at::kBFloat16);
  const at::Tensor got = torch::autograd::grad({out}, {x}, {gradient})[0];
  const at::Tensor wanted = torch::autograd::grad({expected}, {wide}, {gradient.to(at::kFloat)})[0];
  CHECK(at::equal(got, wanted.to(at::kBFloat16)));
}

TEST_CASE("swiglu far from zero is finite") {
  const at::Tensor x = at::tensor({-1e4, 1e4, 2.0, 2.0}).view({1, 4}).to(at::kFloat).set_requires_grad(true);
  const at::Tensor out = swiglu(x);
  CHECK(at::equal(out, at::tensor({0.0F, 2e4F}).view({1, 2})));
  CHECK(torch::autograd::grad({out.sum()}, {x})[0].isfinite().all().item<bool>());
}

TEST_CASE("swiglu on the meta device has the shapes") {
  const at::Tensor x = at::empty({4, 6}, at::TensorOptions(at::kBFloat16).device(at::kMeta)).set_requires_grad(true);
  const at::Tensor out = swiglu(x);
  CHECK(out.sizes() == at::IntArrayRef({4, 3}));
  CHECK(torch::autograd::grad({out}, {x}, {at::empty_like(out)})[0].sizes() == x.sizes());
}

}  // namespace swiglu_test
