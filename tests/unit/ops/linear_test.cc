#include <ATen/ATen.h>
#include <capstan/ops/linear.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/gradients.h"

namespace linear_test {

using capstan::testing::all_of;
using capstan::testing::check_equal;
using capstan::testing::Inputs;
using capstan::testing::waves;

TEST_CASE("linear is ATen's, bit for bit, forward and backward") {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const Inputs in{waves({2, 3, 8}, 0.1).to(type), waves({5, 8}, 0.5).to(type), waves({5}, 0.7).to(type)};
    check_equal(all_of([](const Inputs& x) { return capstan::ops::linear(x[0], x[1], x[2]); }, in),
                all_of([](const Inputs& x) { return at::linear(x[0], x[1], x[2]); }, in));
    check_equal(all_of([](const Inputs& x) { return capstan::ops::linear(x[0], x[1], {}); }, {in[0], in[1]}),
                all_of([](const Inputs& x) { return at::linear(x[0], x[1]); }, {in[0], in[1]}));
  }
}

TEST_CASE("linear's result may be written to, and frozen weights get no gradient") {
  const auto x = waves({2, 3, 8}, 0.1).set_requires_grad(true), weight = waves({5, 8}, 0.5);
  const auto y = capstan::ops::linear(x, weight, {}).mul_(2);
  CHECK(at::allclose(torch::autograd::grad({y.sum()}, {x})[0], (weight.sum(0) * 2).expand({2, 3, 8}), 1e-14));
}

}  // namespace linear_test
