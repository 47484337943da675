#include "ops/add_norm.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/jacobian.h"

namespace add_norm_test {

using namespace capstan::ops;
using capstan::testing::jacobian_error;

namespace {

at::Tensor numbers(const std::vector<std::int64_t>& shape, double phase) {
  return at::arange(1, c10::multiply_integers(shape) + 1, at::kDouble).mul(0.7).add(phase).sin().mul(2).view(shape);
}

at::Tensor both(const Normed& normed) { return at::cat({normed.sum, normed.normed}, -1); }

}  // namespace

TEST_CASE("add_norm is a sum and ATen's norm of it") {
  const auto x = numbers({3, 5, 8}, 0.1), y = numbers({3, 5, 8}, 0.5);
  const auto weight = numbers({8}, 0.9), bias = numbers({8}, 0.3);
  const auto layer = add_norm(x, y, {weight, bias, 1e-5}), rms = add_norm(x, y, {weight, {}, 1e-6});
  CHECK(at::equal(layer.sum, x + y));
  CHECK(at::allclose(layer.normed, at::layer_norm(x + y, {8}, weight, bias, 1e-5), 1e-13, 1e-14));
  CHECK(at::allclose(rms.normed, at::rms_norm(x + y, {8}, weight, 1e-6), 1e-13, 1e-14));
  const auto alone = add_norm(x, {}, {weight, bias, 1e-5});
  CHECK(at::equal(alone.sum, x));
  CHECK(at::allclose(alone.normed, at::layer_norm(x, {8}, weight, bias, 1e-5), 1e-13, 1e-14));
}

TEST_CASE("add_norm adds one to a 16-bit weight without rounding the sum") {
  const auto x = numbers({3, 8}, 0.1).to(at::kBFloat16), weight = numbers({8}, 0.9).div(64).to(at::kBFloat16);
  const auto got = add_norm(x, {}, {weight, {}, 1e-6, /*adds_one=*/true}).normed;
  const auto wide = at::rms_norm(x.to(at::kFloat), {8}, weight.to(at::kFloat) + 1, 1e-6);
  CHECK(at::allclose(got.to(at::kFloat), wide, 1.0 / 256, 0));
  CHECK(got.scalar_type() == at::kBFloat16);
}

TEST_CASE("add_norm's backward is the Jacobian, through the sum, the norm and both") {
  const auto x = numbers({2, 3, 6}, 0.1), y = numbers({2, 3, 6}, 0.5), weight = numbers({6}, 0.9),
             bias = numbers({6}, 0.3);
  const auto layer = [](const std::vector<at::Tensor>& in) {
    return both(add_norm(in[0], in[1], {in[2], in[3], 1e-5}));
  };
  CHECK(jacobian_error(layer, {x, y, weight, bias}) < 1e-7);
  const auto rms = [](const std::vector<at::Tensor>& in) { return both(add_norm(in[0], in[1], {in[2], {}, 1e-5})); };
  CHECK(jacobian_error(rms, {x, y, weight}) < 1e-7);
  const auto alone = [](const std::vector<at::Tensor>& in) { return both(add_norm(in[0], {}, {in[1], {}, 1e-5})); };
  CHECK(jacobian_error(alone, {x, weight}) < 1e-7);
  const auto one_more = [](const std::vector<at::Tensor>& in) {
    return both(add_norm(in[0], in[1], {in[2], {}, 1e-5, /*adds_one=*/true}));
  };
  CHECK(jacobian_error(one_more, {x, y, weight}) < 1e-7);
  const auto normed = [](const std::vector<at::Tensor>& in) {
    return add_norm(in[0], in[1], {in[2], {}, 1e-5}).normed;
  };
  CHECK(jacobian_error(normed, {x, y, weight}) < 1e-7);
  const auto sum = [](const std::vector<at::Tensor>& in) { return add_norm(in[0], in[1], {in[2], {}, 1e-5}).sum; };
  CHECK(jacobian_error(sum, {x, y, weight}) < 1e-7);
}

TEST_CASE("add_norm on the meta device has the shapes, and no bias makes no mean") {
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kMeta);
  const auto x = at::empty({2, 3, 64}, options).set_requires_grad(true), weight = at::empty({64}, options);
  const auto normed = add_norm(x, at::empty({2, 3, 64}, options), {weight, {}, 1e-5});
  CHECK(normed.sum.sizes() == x.sizes());
  CHECK(normed.normed.sizes() == x.sizes());
  const auto gradient = torch::autograd::grad({normed.normed}, {x}, {at::empty_like(normed.normed)})[0];
  CHECK(gradient.sizes() == x.sizes());
}

}  // namespace add_norm_test
