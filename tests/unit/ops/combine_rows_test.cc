#include "ops/combine_rows.h"

#include <ATen/ATen.h>
#include <capstan/ops/grouped.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "ops/gradients.h"

namespace combine_rows_test {

using namespace capstan::ops;
using capstan::testing::all_of;
using capstan::testing::Inputs;
using capstan::testing::jacobian_error;
using capstan::testing::waves;

TEST_CASE("rows combine to tokens by weights, and backward gives both their gradients") {
  const auto order = at::tensor({4, 0, 7, 2, 1, 6, 3, 5}, at::kLong);
  const auto place = at::empty_like(order).scatter_(0, order, at::arange(8, at::kLong));
  const Inputs in{waves({8, 5}, 0.1), waves({4, 2}, 0.5)};
  const auto own = [&](const Inputs& x) { return combine_rows(x[0], {place, order}, x[1]); };
  const auto plain = [&](const Inputs& x) {
    return (permute_rows(x[0], place, order).view({4, 2, 5}) * x[1].unsqueeze(-1)).sum(1);
  };
  const auto got = all_of(own, in), wanted = all_of(plain, in);
  for (std::size_t i = 0; i < got.size(); ++i) CHECK(at::allclose(got[i], wanted[i], 1e-13, 1e-13));
  CHECK(jacobian_error(own, in) < 1e-8);
  CHECK(at::allclose(sum_copies(in[0], place, 2), plain({in[0], at::ones({4, 2}, at::kDouble)}), 1e-13, 1e-13));
}

TEST_CASE("combine_rows on the meta device has the shapes") {
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kMeta);
  const auto index = at::empty({8}, options.dtype(at::kLong));
  const auto weights = at::empty({4, 2}, options).set_requires_grad(true);
  const auto out = combine_rows(at::empty({8, 5}, options), {index, index}, weights);
  CHECK(out.sizes() == at::IntArrayRef({4, 5}));
  CHECK(torch::autograd::grad({out}, {weights}, {at::empty_like(out)})[0].sizes() == weights.sizes());
}

}  // namespace combine_rows_test
