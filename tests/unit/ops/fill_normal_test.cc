#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/base/philox.h>
#include <capstan/ops/random.h>
#include <capstan_catch.h>

#include <cmath>

namespace fill_normal_test {

using namespace capstan::ops;
using Shape = std::vector<std::int64_t>;

namespace {
at::Tensor normals(const Shape& shape, at::ScalarType type = at::kDouble, std::uint64_t seed = 7) {
  at::Tensor out = at::empty(shape, at::TensorOptions(type));
  fill_normal(out, 0, 1, seed, "w", shape, Shape(shape.size(), 0));
  return out;
}
}  // namespace

TEST_CASE("any box equals that slice of the whole") {
  const Shape shape{5, 4, 7};
  const at::Tensor whole = normals(shape);
  for (const Shape& box : {Shape{5, 4, 7}, Shape{2, 4, 7}, Shape{5, 1, 7}, Shape{5, 4, 3}, Shape{1, 1, 1},
                           Shape{3, 2, 5}, Shape{1, 3, 7}, Shape{4, 1, 1}, Shape{0, 4, 7}}) {
    for (int corner = 0; corner < 8; ++corner) {  // against either end of each dimension
      Shape offset(3, 0);
      at::Tensor expected = whole;
      for (std::size_t dim = 0; dim < 3; ++dim) {
        offset[dim] = (corner >> dim & 1) != 0 ? shape[dim] - box[dim] : 0;
        expected = expected.narrow(static_cast<std::int64_t>(dim), offset[dim], box[dim]);
      }
      at::Tensor out = at::full(box, -1.0, at::kDouble);
      fill_normal(out, 0, 1, 7, "w", shape, offset);
      CHECK(at::equal(out, expected));
    }
  }
}

TEST_CASE("shape does not matter, only the flat index") {
  CHECK(at::equal(normals({6, 10}).reshape({-1}), normals({60})));
  CHECK(at::equal(normals({}), normals({1}).reshape({})));
  CHECK(at::equal(normals({200001}).slice(0, 0, 100), normals({100})));
}

TEST_CASE("seed and name choose the numbers") {
  const at::Tensor a = normals({64});
  CHECK_FALSE(at::equal(a, normals({64}, at::kDouble, 8)));
  at::Tensor other = at::empty({64}, at::kDouble);
  fill_normal(other, 0, 1, 7, "v", {64}, {0});
  CHECK((a == other).sum().item<int>() == 0);
}

TEST_CASE("narrower dtypes are roundings of the same number") {
  const at::Tensor exact = normals({4099}), single = normals({4099}, at::kFloat);
  CHECK(at::equal(single, exact.to(at::kFloat)));
  CHECK(at::equal(normals({4099}, at::kBFloat16), single.to(at::kBFloat16)));
  CHECK(at::equal(normals({4099}, at::kHalf), single.to(at::kHalf)));
}

TEST_CASE("the number of threads does not change a normal") {
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const at::Tensor one = normals({40000});
  at::set_num_threads(2);
  const at::Tensor two = normals({40000});
  at::set_num_threads(before);
  CHECK(at::equal(one, two));
}

TEST_CASE("mean and std are applied in double") {
  at::Tensor out = at::empty({100}, at::kDouble);
  fill_normal(out, 3, 0.02, 7, "w", {100}, {0});
  CHECK(at::equal(out, normals({100}) * 0.02 + 3));
}

// Bounds of six standard errors of each statistic: a right generator fails one in 10^9, and the seed is fixed anyway.
TEST_CASE("the numbers are independent standard normals") {
  const std::int64_t n = 1 << 20;
  const double error = 6 / std::sqrt(static_cast<double>(n));
  const at::Tensor x = normals({n});
  CHECK(std::abs(x.mean().item<double>()) < error);
  CHECK(std::abs(x.square().mean().item<double>() - 1) < error * std::sqrt(2.0));
  CHECK(std::abs(x.pow(3).mean().item<double>()) < error * std::sqrt(15.0));
  CHECK(std::abs(x.pow(4).mean().item<double>() - 3) < error * std::sqrt(96.0));
  for (const std::int64_t lag : {1, 2, 3, 768}) {  // neighbours come from one Philox block
    CHECK(std::abs((x.slice(0, lag) * x.slice(0, 0, n - lag)).mean().item<double>()) < error);
  }
  const auto below = [&](double bound) { return x.lt(bound).to(at::kDouble).mean().item<double>(); };
  for (const double bound : {-3.0, -1.0, 0.0, 0.5, 2.0}) {
    CHECK(std::abs(below(bound) - 0.5 * std::erfc(-bound / std::sqrt(2.0))) < error / 2);
  }
}

// Box and Muller's formula without the reduction to quarter turns, from the words of the documented block.
TEST_CASE("an element is the documented function of its block") {
  const at::Tensor x = normals({2000});
  const capstan::PhiloxKey key = capstan::make_key(7, capstan::RandomPurpose::initialisation, "w");
  for (std::int64_t block = 0; block < 1000; ++block) {
    const capstan::PhiloxBlock b = capstan::philox({{static_cast<std::uint32_t>(block), 0, 0, 0}}, key);
    const double u = std::ldexp(static_cast<double>(((std::uint64_t{b.word[0]} << 32 | b.word[1]) >> 11) + 1), -53);
    const double v = std::ldexp(static_cast<double>((std::uint64_t{b.word[2]} << 32 | b.word[3]) >> 11), -53);
    const double radius = std::sqrt(-2 * std::log(u));
    // 2 pi v is rounded to 4e-16 here; radius is at most 8.6.
    REQUIRE(x[2 * block].item<double>() == Approx(radius * std::cos(2 * M_PI * v)).margin(1e-14));
    REQUIRE(x[2 * block + 1].item<double>() == Approx(radius * std::sin(2 * M_PI * v)).margin(1e-14));
  }
}

}  // namespace fill_normal_test
