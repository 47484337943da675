#include "ops/alibi_heads.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <cmath>

#include "ops/gradients.h"

using namespace capstan::ops;
using capstan::testing::Inputs;
using capstan::testing::jacobian_error;
using capstan::testing::numbers;

namespace {

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace

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

// A bias of up to 1000 with a step of 1/2 has 11 bits and a scale that is no power of two makes it 24: one bfloat16 of
// 8 bits loses it, three hold it.
TEST_CASE("three bfloat16 columns hold a float32 bias") {
  const auto q = at::zeros({1, 1, 2048, 72}, at::kBFloat16);
  const double scale = 1 / std::sqrt(72.0);
  const auto bias = at::arange(-2047, 1, at::TensorOptions(at::kFloat)).mul(0.70710678F).view({1, 1, 2048});
  const auto wide = with_bias_columns(q, q, bias, scale);
  CHECK(wide.k.scalar_type() == at::kBFloat16);
  const auto carried = (wide.k.to(at::kDouble) * wide.q.to(at::kDouble)).sum(-1) * scale;
  // 2^-24 of the largest number.
  CHECK(difference(carried, bias) < 1448 * std::pow(2.0, -23));
  const auto one = (bias / scale).to(at::kBFloat16).to(at::kDouble) * scale;
  CHECK(difference(one, bias) > 1);
}

TEST_CASE("the fused projection's widened heads are those of its parts") {
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto fused = numbers({2, 5, 3, 3, 8}, 0.1).to(type);
    const auto slope =
        at::tensor({0.5, 0.125, 0.03}, at::TensorOptions(type == at::kDouble ? at::kDouble : at::kFloat));
    const auto positions = at::arange(5, at::kLong).expand({2, 5});
    const auto got = alibi_heads(fused.flatten(2), slope, positions, 0.4);
    const auto of = [&](std::int64_t part) { return fused.select(3, part).transpose(1, 2); };
    const auto bias = slope.view({1, -1, 1}) * (positions - 4).unsqueeze(1);
    const auto wanted = with_bias_columns(of(0), of(1), bias, 0.4);
    CHECK(at::equal(got.q, wanted.q));
    CHECK(at::equal(got.k, wanted.k));
    CHECK(at::equal(got.v, of(2)));
  }
}
