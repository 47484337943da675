// Heads that carry their biases as columns.
#include "models/bloom/heads.h"

#include <ATen/ATen.h>
#include <capstan/ops/bias_columns.h>
#include <capstan_catch.h>

#include "ops/gradients.h"
#include "support/model.h"

namespace heads_test {

using namespace capstan;
using capstan::testing::Inputs;
using capstan::testing::jacobian_error;
using capstan::testing::waves;

namespace {

// The plugin's file has the operators.
void open_plugin() { (void)testing::model_host().load("model", "bloom"); }

}  // namespace

TEST_CASE("widened heads: the waves, ones, and a bias in three parts; gradients of only the waves") {
  open_plugin();
  const auto positions = at::tensor({0, 1, 2, 7, 0, 5, 6, 130}, at::kLong).view({2, 4});
  const auto slopes = at::tensor({0.5, 0.25}, at::kDouble);
  const auto function = [&](const Inputs& x) {
    const auto heads = bloom::widened_heads(x[0].flatten(2), slopes, positions, 0.4);
    return at::cat({heads.q, heads.k, heads.v}, -1).transpose(1, 2);
  };
  const auto fused = waves({2, 4, 2, 3, 6}, 0.1);
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

TEST_CASE("widened heads on the meta device have the shapes") {
  open_plugin();
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kMeta);
  const auto where = at::empty({2, 4}, options.dtype(at::kLong));
  const auto heads =
      bloom::widened_heads(at::empty({2, 4, 36}, options), at::empty({2}, options.dtype(at::kFloat)), where, 1);
  CHECK(heads.k.sizes() == at::IntArrayRef({2, 2, 4, 16}));
}

TEST_CASE("the fused projection's widened heads are those of its parts") {
  open_plugin();
  for (const auto type : {at::kDouble, at::kFloat, at::kBFloat16}) {
    const auto fused = waves({2, 5, 3, 3, 8}, 0.1).to(type);
    const auto slope =
        at::tensor({0.5, 0.125, 0.03}, at::TensorOptions(type == at::kDouble ? at::kDouble : at::kFloat));
    const auto positions = at::arange(5, at::kLong).expand({2, 5});
    const auto got = bloom::widened_heads(fused.flatten(2), slope, positions, 0.4);
    const auto of = [&](std::int64_t part) { return fused.select(3, part).transpose(1, 2); };
    const auto bias = slope.view({1, -1, 1}) * (positions - 4).unsqueeze(1);
    const auto wanted = ops::with_bias_columns(of(0), of(1), bias, 0.4);
    CHECK(at::equal(got.q, wanted.q));
    CHECK(at::equal(got.k, wanted.k));
    CHECK(at::equal(got.v, of(2)));
  }
}

}  // namespace heads_test
