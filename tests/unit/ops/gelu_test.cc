#include <ATen/ATen.h>
#include <capstan/ops/gelu.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/gradients.h"

namespace gelu_test {

using capstan::testing::all_of;
using capstan::testing::check_equal;
using capstan::testing::Inputs;
using capstan::testing::jacobian_error;
using capstan::testing::waves;

TEST_CASE("gelu is ATen's in both forms, bit for bit, forward and backward") {
  for (const bool by_tanh : {false, true}) {
    const auto own = [&](const Inputs& x) { return capstan::ops::gelu(x[0], by_tanh); };
    for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
      const Inputs in{waves({3, 10}, 0.1).to(type)};
      check_equal(all_of(own, in),
                  all_of([&](const Inputs& x) { return at::gelu(x[0], by_tanh ? "tanh" : "none"); }, in));
    }
    CHECK(jacobian_error(own, {waves({3, 10}, 0.1)}) < 1e-8);
  }
}

TEST_CASE("gelu on the meta device has the shape") {
  const auto x = at::empty({4, 6}, at::TensorOptions(at::kBFloat16).device(at::kMeta)).set_requires_grad(true);
  const auto out = capstan::ops::gelu(x, true);
  CHECK(out.sizes() == x.sizes());
  CHECK(torch::autograd::grad({out}, {x}, {at::empty_like(out)})[0].sizes() == x.sizes());
}

}  // namespace gelu_test
