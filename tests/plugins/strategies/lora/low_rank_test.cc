#include "plugins/strategies/lora/low_rank.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/jacobian.h"

using capstan::testing::jacobian_error;
using lora::add_low_rank_;

namespace {

using Inputs = std::vector<at::Tensor>;

at::Tensor numbers(const std::vector<std::int64_t>& shape, double phase) {
  return at::arange(1, c10::multiply_integers(shape) + 1, at::kDouble).mul(0.7).add(phase).sin().mul(2).view(shape);
}

/// The result and all gradients of a weighting of it.
Inputs all_of(const capstan::testing::DifferentiableFunction& function, const Inputs& inputs) {
  Inputs leaves;
  for (const auto& input : inputs) leaves.push_back(input.detach().clone().set_requires_grad(true));
  const auto out = function(leaves);
  auto results = torch::autograd::grad({out}, leaves, {numbers(out.sizes().vec(), 0.3).to(out.scalar_type())});
  results.insert(results.begin(), out.detach());
  return results;
}

}  // namespace

TEST_CASE("a low-rank adapter is added in place, to all features or to a part, as addmm_ adds it") {
  for (const std::int64_t begin : {0, 3}) {
    const auto rows = begin == 0 ? 8 : 4;
    const Inputs in{numbers({2, 3, 6}, 0.1), numbers({8, 6}, 0.5), numbers({2, 6}, 0.7), numbers({rows, 2}, 0.9)};
    const auto own = [begin](const Inputs& x) {
      const auto inner = at::linear(x[0], x[2]).flatten(0, -2);
      return add_low_rank_(at::linear(x[0], x[1]), {inner, x[3], 0.5, begin});
    };
    const auto plain = [begin](const Inputs& x) {
      const auto inner = at::linear(x[0], x[2]).flatten(0, -2);
      const auto y = at::linear(x[0], x[1]).flatten(0, -2);
      const auto columns = at::constant_pad_nd(at::mm(inner, x[3].t()) * 0.5, {begin, 8 - begin - x[3].size(0)});
      return (y + columns).view({2, 3, 8});
    };
    const auto got = all_of(own, in), wanted = all_of(plain, in);
    for (std::size_t i = 0; i < got.size(); ++i) CHECK(at::allclose(got[i], wanted[i], 1e-13, 1e-13));
    CHECK(jacobian_error(own, in) < 1e-7);
  }
}
