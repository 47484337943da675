#include "ops/alibi_heads.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "ops/gradients.h"

using namespace capstan::ops;
using capstan::testing::Inputs;
using capstan::testing::jacobian_error;
using capstan::testing::numbers;

TEST_CASE("ALiBi's heads: the numbers, ones, and a bias in three parts; gradients of only the numbers") {
  const auto positions = at::tensor({0, 1, 2, 7, 0, 5, 6, 130}, at::kLong).view({2, 4});
  const auto slopes = at::tensor({0.5, 0.25}, at::kDouble);
  const auto function = [&](const Inputs& x) {
    const auto heads = alibi_heads(x[0].flatten(2), slopes, positions, 0.4);
    return at::cat({heads.q, heads.k, heads.v}, -1).transpose(1, 2);
  };
  const auto fused = numbers({2, 4, 2, 3, 6}, 0.1);
  const auto out = function({fused});
  REQUIRE(out.size(-1) == 16 + 16 + 6);
  CHECK(at::equal(out.narrow(-1, 0, 6), fused.select(3, 0)));
  CHECK(at::equal(out.narrow(-1, 6, 3), at::ones({2, 4, 2, 3}, at::kDouble)));
  CHECK(out.narrow(-1, 9, 7).abs().max().item<double>() == 0);
  CHECK(at::equal(out.narrow(-1, 16, 6), fused.select(3, 1)));
  const auto bias = (positions - 3).unsqueeze(-1) * slopes;
  CHECK(at::allclose(out.narrow(-1, 22, 3).sum(-1) * 0.4, bias, 1e-14, 1e-14));
  CHECK(out.narrow(-1, 25, 7).abs().max().item<double>() == 0);
  CHECK(at::equal(out.narrow(-1, 32, 6), fused.select(3, 2)));
  CHECK(jacobian_error(function, {fused}) < 1e-8);
}

TEST_CASE("ALiBi's heads on the meta device have the shapes") {
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kMeta);
  const auto where = at::empty({2, 4}, options.dtype(at::kLong));
  const auto heads = alibi_heads(at::empty({2, 4, 36}, options), at::empty({2}, options.dtype(at::kFloat)), where, 1);
  CHECK(heads.k.sizes() == at::IntArrayRef({2, 2, 4, 16}));
}
