#include <ATen/ATen.h>
#include <capstan/ops/random.h>
#include <capstan_catch.h>

#include <cmath>

namespace fill_uniform_test {

using namespace capstan::ops;
using Shape = std::vector<std::int64_t>;

namespace {
at::Tensor numbers(const Shape& shape, at::ScalarType type = at::kDouble, std::uint64_t seed = 7) {
  at::Tensor out = at::empty(shape, at::TensorOptions(type));
  fill_uniform(out, -2, 3, seed, "w", shape, Shape(shape.size(), 0));
  return out;
}
}  // namespace

TEST_CASE("any box of uniform numbers equals that slice of the whole") {
  const auto whole = numbers({5, 4, 7});
  for (const Shape& offset : {Shape{0, 0, 0}, Shape{2, 1, 3}, Shape{4, 0, 6}}) {
    const Shape box{5 - offset[0], 4 - offset[1], 7 - offset[2]};
    auto out = at::empty(box, at::kDouble);
    fill_uniform(out, -2, 3, 7, "w", {5, 4, 7}, offset);
    CHECK(at::equal(out, whole.slice(0, offset[0]).slice(1, offset[1]).slice(2, offset[2])));
  }
}

TEST_CASE("seed chooses uniform numbers, and narrower dtypes round the same ones") {
  const auto exact = numbers({4099}), single = numbers({4099}, at::kFloat);
  CHECK((exact == numbers({4099}, at::kDouble, 8)).sum().item<int>() == 0);
  CHECK(at::equal(single, exact.to(at::kFloat)));
  CHECK(at::equal(numbers({4099}, at::kBFloat16), single.to(at::kBFloat16)));
}

// Six standard errors of mean, variance and lag-one correlation, and a bin each.
TEST_CASE("the numbers are independent and even") {
  const std::int64_t n = 1 << 18;
  const auto x = (numbers({n}) + 2) / 5;
  const double root = std::sqrt(static_cast<double>(n));
  CHECK(x.min().item<double>() >= 0);
  CHECK(x.max().item<double>() < 1);
  CHECK(std::abs(x.mean().item<double>() - 0.5) < 6 * std::sqrt(1.0 / 12) / root);
  CHECK(std::abs(x.var().item<double>() - 1.0 / 12) < 6 * std::sqrt(1.0 / 180) / root);
  const auto centred = x - 0.5;
  const auto lagged = (centred.slice(0, 0, n - 1) * centred.slice(0, 1)).mean().item<double>();
  CHECK(std::abs(lagged) < 6 * (1.0 / 12) / root);
  const auto bins = at::bincount((x * 16).to(at::kLong)).to(at::kDouble) / n;
  CHECK((bins - 1.0 / 16).abs().max().item<double>() < 6 * std::sqrt(1.0 / 16) / root);
}

}  // namespace fill_uniform_test
