// Rounding to 8 bits and the scales it is done by, against the formats' definition.
#include "plugins/strategies/fp8/quantise.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <cmath>
#include <limits>
#include <vector>

#include "plugins/strategies/fp8/numbers.h"

namespace quantise_test {

using namespace fp8;
using fp8_test::e4m3;
using fp8_test::e5m2;

namespace {

at::Tensor scale(double magnitude, at::ScalarType format) {
  return scales_for(at::full({1, 1}, magnitude, at::kFloat), format);
}

void check_rounding(at::ScalarType dtype, const fp8_test::Format& format) {
  const auto all = fp8_test::numbers(format);
  std::vector<double> tried;
  for (std::size_t i = 0; i < all.size(); ++i) {
    tried.push_back(-all[i]);
    if (i + 1 == all.size()) break;
    const double half = (all[i] + all[i + 1]) / 2;  // a tie
    for (const double x : {half, std::nextafter(static_cast<float>(half), 0.F) + 0.0,
                           std::nextafter(static_cast<float>(half), 1e9F) + 0.0})
      tried.push_back(x);
  }
  const auto x = at::tensor(tried, at::kDouble).view({1, -1});
  const auto largest = at::full({1, 1}, format.largest, at::kFloat);  // whose scale is 1
  const auto values = quantise(x.to(at::kFloat), {dtype}, largest).values.to(at::kDouble);
  for (std::size_t i = 0; i < tried.size(); ++i) {
    INFO(tried[i]);
    CHECK(values[0][static_cast<std::int64_t>(i)].item<double>() == fp8_test::rounded(tried[i], format));
  }
}

}  // namespace

TEST_CASE("numbers are rounded to the nearest of the format, ties to even") {
  CHECK(fp8_test::numbers(e4m3).size() == 127);
  CHECK(fp8_test::numbers(e5m2).size() == 124);
  check_rounding(at::kFloat8_e4m3fn, e4m3);
  check_rounding(at::kFloat8_e5m2, e5m2);
}

TEST_CASE("a scale is the smallest power of two that keeps the largest magnitude in range") {
  for (const double magnitude : {1e-30, 0.001, 0.4375, 0.437500030, 1.0, 447.9, 448.0, 448.1, 3e4, 1e30}) {
    INFO(magnitude);
    const auto stored = static_cast<double>(static_cast<float>(magnitude));
    CHECK(scale(magnitude, at::kFloat8_e4m3fn).item<double>() == fp8_test::scale_for(stored, e4m3));
    CHECK(scale(magnitude, at::kFloat8_e5m2).item<double>() == fp8_test::scale_for(stored, e5m2));
  }
  CHECK(scale(0, at::kFloat8_e4m3fn).isfinite().item<bool>());
}

TEST_CASE("the transpose has rows of its own scales, padded with zeros; both ways at once are each way") {
  const auto x = at::randn({21, 32}).mul(at::arange(32).exp2().mul(1e-6));
  const auto columns = quantise(x, {.transposed = true}), alone = quantise(x.t().contiguous(), {});
  CHECK(columns.values.sizes() == at::IntArrayRef{32, 32});
  CHECK(at::equal(columns.values.narrow(1, 0, 21).to(at::kFloat), alone.values.to(at::kFloat)));
  CHECK(columns.values.narrow(1, 21, 11).to(at::kFloat).eq(0).all().item<bool>());
  CHECK(at::equal(columns.scales, alone.scales));
  for (const bool by_row : {true, false}) {
    const auto [rows, transposed] = quantise_both(x, {at::kFloat8_e5m2, by_row});
    CHECK(at::equal(rows.values.to(at::kFloat), quantise(x, {at::kFloat8_e5m2, by_row}).values.to(at::kFloat)));
    CHECK(at::equal(transposed.scales, quantise(x, {at::kFloat8_e5m2, by_row, true}).scales));
  }
  const auto empty = quantise(x.narrow(0, 0, 0), {.transposed = true});
  CHECK(empty.values.sizes() == at::IntArrayRef{32, 0});
}

TEST_CASE("what becomes zero and what is not finite is counted") {
  const auto x = at::zeros({40, 16});
  x[0][0] = 448.0;
  x[0][1] = 0x1p-10;  // a tie between 0 and the smallest number
  x[0][2] = 0x1.8p-10;
  x[1][3] = 0x1p-30;  // no row that is counted
  x[1][4] = 1;
  x[5][0] = std::numeric_limits<double>::infinity();
  x[16].fill_(1);
  const auto counts = at::zeros({4}, at::kLong);
  for (int i = 0; i < 2; ++i) (void)quantise(x, {.counts = counts});
  CHECK(at::equal(counts, at::tensor({2, 38, 2, 80}, at::kLong)));
  (void)quantise(x, {.transposed = true, .counts = counts});
  CHECK(at::equal(counts, at::tensor({2, 38, 2, 80}, at::kLong)));
}

}  // namespace quantise_test
