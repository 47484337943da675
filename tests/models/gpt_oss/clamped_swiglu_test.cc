#include "models/gpt_oss/clamped_swiglu.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>

#include "ops/jacobian.h"
#include "support/model.h"

namespace clamped_swiglu_test {

using capstan::ops::GroupBiases;
using capstan::testing::jacobian_error;
using gpt_oss::SwigluLimits;

namespace {

const SwigluLimits limits{3, 1.702};

at::Tensor gated(const at::Tensor& x, const GroupBiases& biases, const SwigluLimits& how) {
  (void)capstan::testing::model_host().load("model", "gpt_oss");  // the plugin's file has the operators
  return gpt_oss::clamped_swiglu(x, biases, how);
}

// Up to ±4: on both sides of the limits, and of none nearer than the step of a Jacobian.
at::Tensor numbers(const std::vector<std::int64_t>& shape) {
  return at::arange(1, c10::multiply_integers(shape) + 1, at::kDouble).mul(0.7).sin().mul(4).view(shape);
}

// Rows of three groups, the second of which has none.
at::Tensor group() { return at::tensor({0, 0, 2, 2, 2}, at::kLong); }

}  // namespace

TEST_CASE("the clamped gate is transformers' formula, number by number, with the row's bias") {
  const at::Tensor x = numbers({5, 14}), bias = numbers({3, 14}) * 0.3;
  for (const bool has_bias : {false, true}) {
    const auto out = gated(x, has_bias ? GroupBiases{bias, group()} : GroupBiases{}, limits);
    REQUIRE(out.sizes() == at::IntArrayRef({5, 7}));
    const auto in = x.accessor<double, 2>(), of = bias.accessor<double, 2>(), got = out.accessor<double, 2>();
    for (std::int64_t i = 0; i < 5; ++i) {
      const auto e = group()[i].item<std::int64_t>();
      for (std::int64_t j = 0; j < 7; ++j) {
        const double gate = std::min(in[i][j] + (has_bias ? of[e][j] : 0), limits.limit);
        const double up = std::clamp(in[i][7 + j] + (has_bias ? of[e][7 + j] : 0), -limits.limit, limits.limit);
        CHECK(got[i][j] == Approx((up + 1) * gate / (1 + std::exp(-limits.slope * gate))).epsilon(1e-14).margin(1e-15));
      }
    }
  }
}

TEST_CASE("its backward, that of biases too, is the Jacobian") {
  const auto clamped = [](const std::vector<at::Tensor>& x) { return gated(x[0], {x[1], group()}, limits); };
  const auto plain = [](const std::vector<at::Tensor>& x) { return gated(x[0], {}, limits); };
  const at::Tensor x = numbers({5, 10}), bias = numbers({3, 10}) * 0.3;
  CHECK(jacobian_error(clamped, {x, bias}) < 1e-8);
  CHECK(jacobian_error(plain, {x}) < 1e-8);
}

TEST_CASE("16-bit numbers are computed in float32 and rounded once; a bias' gradient is so too") {
  const at::Tensor x = numbers({5, 10}).to(at::kBFloat16).set_requires_grad(true);
  const at::Tensor bias = (numbers({3, 10}) * 0.3).to(at::kBFloat16).set_requires_grad(true);
  const at::Tensor sums = (x + bias.index_select(0, group())).detach();
  const at::Tensor wide = sums.to(at::kFloat).set_requires_grad(true);
  const at::Tensor out = gated(x, {bias, group()}, limits), expected = gated(wide, {}, limits);
  CHECK(at::equal(out, expected.to(at::kBFloat16)));
  const at::Tensor gradient = numbers({5, 5}).to(at::kBFloat16);
  const auto got = torch::autograd::grad({out}, {x, bias}, {gradient});
  const at::Tensor wanted = torch::autograd::grad({expected}, {wide}, {gradient.to(at::kFloat)})[0];
  CHECK(at::equal(got[0], wanted.to(at::kBFloat16)));
  const at::Tensor of_bias = at::zeros({3, 10}).index_add_(0, group(), got[0].to(at::kFloat));
  CHECK(at::equal(got[1], of_bias.to(at::kBFloat16)));
}

TEST_CASE("numbers far from zero stay finite, and nothing comes back through a limit") {
  const at::Tensor x = at::tensor({-2.0, 1e4, -1e4, 2.0, 2e4, 2.0}).view({1, 6}).to(at::kFloat).set_requires_grad(true);
  const at::Tensor out = gated(x, {}, {});
  CHECK(out.isfinite().all().item<bool>());
  const at::Tensor back = torch::autograd::grad({out.sum()}, {x})[0];
  // The last gate is so far below zero that its sigmoid is zero.
  CHECK(at::equal(back.ne(0), at::tensor({1, 0, 0, 1, 0, 0}).view({1, 6}).to(at::kBool)));
}

TEST_CASE("the clamped gate on the meta device has the shapes") {
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kMeta);
  const at::Tensor x = at::empty({4, 6}, options).set_requires_grad(true);
  const at::Tensor bias = at::empty({2, 6}, options).set_requires_grad(true);
  const at::Tensor rows = at::empty({4}, options.dtype(at::kLong));
  const at::Tensor out = gated(x, {bias, rows}, {});
  CHECK(out.sizes() == at::IntArrayRef({4, 3}));
  const auto back = torch::autograd::grad({out}, {x, bias}, {at::empty_like(out)});
  CHECK(back[0].sizes() == x.sizes());
  CHECK(back[1].sizes() == bias.sizes());
}

}  // namespace clamped_swiglu_test
