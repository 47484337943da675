#include <ATen/ATen.h>
#include <capstan/ops/bias_columns.h>
#include <capstan_catch.h>

#include <cmath>

namespace bias_columns_test {

using namespace capstan::ops;

namespace {

double difference(const at::Tensor& a, const at::Tensor& b) {
  return (a.to(at::kDouble) - b.to(at::kDouble)).abs().max().item<double>();
}

}  // namespace

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

}  // namespace bias_columns_test
