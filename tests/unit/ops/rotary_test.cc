#include <ATen/ATen.h>
#include <capstan/ops/rotary.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "ops/gradients.h"

namespace rotary_test {

using namespace capstan::ops;
using capstan::testing::all_of;
using capstan::testing::check_equal;
using capstan::testing::Inputs;
using capstan::testing::jacobian_error;

namespace {

const std::vector<double> frequencies{1.0, 0.3, 0.07};

at::Tensor numbers(const std::vector<std::int64_t>& shape) {
  return at::arange(1, c10::multiply_integers(shape) + 1, at::kDouble).mul(0.7).sin().view(shape);
}

at::Tensor some_positions() { return at::tensor({0, 1, 2, 3, 7, 0, 1, 130}, at::kLong).view({2, 4}); }

/// From the definition: each pair (i, i + half) as a complex number times e^(i angle).
at::Tensor reference(const at::Tensor& x, const at::Tensor& positions) {
  const auto half = x.size(3) / 2;
  at::Tensor out = at::empty_like(x, at::MemoryFormat::Contiguous);
  for (std::int64_t b = 0; b < x.size(0); ++b) {
    for (std::int64_t s = 0; s < x.size(1); ++s) {
      for (std::int64_t h = 0; h < x.size(2); ++h) {
        for (std::int64_t i = 0; i < half; ++i) {
          const double a =
              static_cast<double>(positions[b][s].item<std::int64_t>()) * frequencies[static_cast<std::size_t>(i)];
          const double first = x[b][s][h][i].item<double>(), second = x[b][s][h][i + half].item<double>();
          out[b][s][h][i] = first * std::cos(a) - second * std::sin(a);
          out[b][s][h][i + half] = first * std::sin(a) + second * std::cos(a);
        }
      }
    }
  }
  return out;
}

}  // namespace

TEST_CASE("rotary turns each pair by position times frequency") {
  const at::Tensor x = numbers({2, 4, 3, 6}), positions = some_positions();
  const at::Tensor out = rotary(x, positions, frequencies);
  CHECK(out.is_contiguous());
  CHECK((out - reference(x, positions)).abs().max().item<double>() < 1e-15);
  // A part of a fused projection: strided rows and heads.
  const at::Tensor fused = numbers({2, 4, 5 * 6}), part = fused.narrow(2, 6, 18).view({2, 4, 3, 6});
  CHECK((rotary(part, positions, frequencies) - reference(part, positions)).abs().max().item<double>() < 1e-15);
}

TEST_CASE("rotary's backward is the Jacobian, also for a strided gradient") {
  const at::Tensor positions = some_positions();
  const auto function = [&](const std::vector<at::Tensor>& x) { return rotary(x[0], positions, frequencies); };
  CHECK(jacobian_error(function, {numbers({2, 4, 2, 6})}) < 1e-8);
  const auto turned = [&](const std::vector<at::Tensor>& x) {
    return rotary(x[0], positions, frequencies).transpose(1, 3).contiguous();
  };
  CHECK(jacobian_error(turned, {numbers({2, 4, 2, 6})}) < 1e-8);
}

// float32: the angle 130 · 1 is good to 130 · 2^-24 = 8e-6; bfloat16's result is rounded to 8 bits.
TEST_CASE("rotary in narrower dtypes is good to their rounding") {
  const at::Tensor x = numbers({2, 4, 3, 6}), positions = some_positions();
  const at::Tensor expected = reference(x, positions);
  const at::Tensor single = rotary(x.to(at::kFloat), positions, frequencies);
  CHECK(single.scalar_type() == at::kFloat);
  CHECK((single.to(at::kDouble) - expected).abs().max().item<double>() < 1e-5);
  const at::Tensor narrow = x.to(at::kBFloat16);
  const at::Tensor rounded = rotary(narrow, positions, frequencies);
  CHECK(rounded.scalar_type() == at::kBFloat16);
  CHECK(at::equal(rounded, rotary(narrow.to(at::kFloat), positions, frequencies).to(at::kBFloat16)));
}

TEST_CASE("rotary on the meta device has the shape") {
  const at::Tensor x = at::empty({2, 4, 3, 6}, at::TensorOptions(at::kBFloat16).device(at::kMeta));
  const at::Tensor out = rotary(x, at::empty({2, 4}, x.options().dtype(at::kLong)), frequencies);
  CHECK(out.sizes() == x.sizes());
  CHECK(out.scalar_type() == at::kBFloat16);
}

TEST_CASE("heads of a fused projection turn in its memory, as rotary turns them") {
  const auto positions = some_positions();
  const auto fused = numbers({2, 4, 6, 6});
  const auto plain = [&](const Inputs& x) {
    const auto turned = rotary(x[0].narrow(2, 0, 5), positions, frequencies);
    return at::cat({turned, x[0].narrow(2, 5, 1)}, 2);
  };
  const auto own = [&](const Inputs& x) {
    const auto parts = rotary_heads_(x[0] * 1, 3, 2, positions, frequencies);
    return at::cat({parts.q, parts.k, parts.v}, 2);
  };
  check_equal(all_of(own, {fused}), all_of(plain, {fused}));
  CHECK(jacobian_error(own, {fused}) < 1e-8);
  const auto memory = fused.clone();
  const auto parts = rotary_heads_(memory, 3, 2, positions, frequencies);
  CHECK(parts.q.data_ptr() == memory.data_ptr());
  CHECK(at::equal(memory.narrow(2, 3, 2), parts.k));
  CHECK(at::equal(parts.v, fused.narrow(2, 5, 1)));
}

TEST_CASE("heads of a fused projection on the meta device have its shape, and so has its gradient") {
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kMeta);
  const auto where = at::empty({2, 4}, options.dtype(at::kLong));
  const auto fused = at::empty({2, 4, 6, 6}, options).set_requires_grad(true);
  const auto turned = rotary_heads_(fused * 1, 3, 2, where, frequencies);
  CHECK(torch::autograd::grad({turned.k}, {fused}, {at::empty_like(turned.k)})[0].sizes() == fused.sizes());
}

}  // namespace rotary_test
