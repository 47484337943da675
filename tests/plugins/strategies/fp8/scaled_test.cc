#include "plugins/strategies/fp8/scaled.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <cmath>
#include <limits>

#include "support/open_plugin.h"

namespace scaled_test {

using namespace fp8;

TEST_CASE("what is not finite stays so: a run stops where its numbers do") {
  for (const double bad : {std::numeric_limits<double>::infinity(), std::nan("")}) {
    auto x = at::ones({2, 16});
    x[1][3] = bad;
    const auto by_row = quantise(x, {});
    const auto y = product(by_row, by_row, at::kFloat, true);
    CHECK(y[0][0].item<float>() == 16);
    CHECK(y[1][0].isnan().item<bool>());
    const auto whole = quantise(x, {.by_row = false});
    CHECK(product(whole, whole, at::kFloat, true).isnan().all().item<bool>());
  }
}

TEST_CASE("zeros stay zeros, and a row of them does not disturb others") {
  auto x = at::randn({3, 16});
  x[1].zero_();
  const auto scaled = quantise(x, {});
  const auto y = product(scaled, scaled, at::kFloat, true);
  CHECK(y[1].eq(0).all().item<bool>());
  CHECK(y.isfinite().all().item<bool>());
}

TEST_CASE("meta tensors get shapes and dtypes") {
  test::open_plugin("strategy/fp8.so");
  const auto x = at::empty({5, 32}, at::TensorOptions().dtype(at::kBFloat16).device(at::kMeta));
  const auto scaled = quantise(x, {});
  CHECK(scaled.values.scalar_type() == at::kFloat8_e4m3fn);
  CHECK(scaled.scales.sizes() == at::IntArrayRef{5, 1});
  const auto y = product(scaled, scaled, at::kBFloat16, true);
  CHECK(y.sizes() == at::IntArrayRef{5, 5});
  CHECK(y.scalar_type() == at::kBFloat16);
}

}  // namespace scaled_test
