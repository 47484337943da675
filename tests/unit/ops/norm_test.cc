#include "ops/norm.h"
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan_catch.h>

#include <cmath>

namespace norm_test {

using namespace capstan::ops;

namespace {
at::Tensor numbers(std::int64_t n, at::ScalarType type) {
  return at::arange(1, n + 1, at::kDouble).mul(0.37).sin().to(type);
}
double norm_of(const at::Tensor& x) {
  at::Tensor out = at::empty({1}, at::kDouble);
  squared_norms(out, {x});
  return out.item<double>();
}
}  // namespace

// Float64 sums of n terms differ by at most n ulp; in the lanes' order a term passes at most 16 + 8 + 8 + 16 additions.
TEST_CASE("squared norms equal the float64 sum") {
  for (const at::ScalarType type : {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf}) {
    for (const std::int64_t n : {1, 255, 256, 257, 4095, 4096, 4097, 100003}) {
      const at::Tensor x = numbers(n, type);
      CHECK(norm_of(x) == Approx(x.to(at::kDouble).square().sum().item<double>()).epsilon(1e-14));
    }
  }
}

TEST_CASE("integers are summed exactly") {
  const at::Tensor x = at::arange(0, 10000, at::kFloat);
  CHECK(norm_of(x) == 9999.0 * 10000.0 * 19999.0 / 6);
  CHECK(norm_of(at::zeros({0}, at::kFloat)) == 0);
}

TEST_CASE("a float32 sum would overflow or lose its small terms") {
  at::Tensor x = at::full({5000}, 1e-3, at::kFloat);
  x[0] = 1e25;  // its square is beyond float32
  CHECK(norm_of(x) == Approx(static_cast<double>(1e25F) * static_cast<double>(1e25F)).epsilon(1e-14));
  x[0] = 1e5;
  const double small = static_cast<double>(1e-3F);
  CHECK(norm_of(x) - 1e10 == Approx(4999 * small * small).epsilon(1e-2));  // 1e10 has an ulp of 2e-6
}

TEST_CASE("the number of threads does not change a sum") {
  const at::Tensor x = numbers(1000003, at::kFloat);
  const int before = at::get_num_threads();
  at::set_num_threads(1);
  const double one = norm_of(x);
  for (const int threads : {2, 3}) {
    at::set_num_threads(threads);
    CHECK(norm_of(x) == one);
  }
  at::set_num_threads(before);
}

TEST_CASE("many tensors, each its own sum, with the bits of a single one") {
  const std::vector<at::Tensor> xs{numbers(5000, at::kFloat), numbers(3, at::kDouble), at::zeros({0}, at::kFloat),
                                   numbers(9000, at::kBFloat16), numbers(4096, at::kHalf).view({64, 64})};
  at::Tensor out = at::full({5}, -1.0, at::kDouble);  // written, not added to
  squared_norms(out, xs);
  for (std::size_t i = 0; i < xs.size(); ++i) {
    CHECK(out[static_cast<std::int64_t>(i)].item<double>() == norm_of(xs[i]));
  }
}

TEST_CASE("a view is read in place; a transposed one in memory order") {
  const at::Tensor flat = numbers(10000, at::kFloat);
  CHECK(norm_of(flat.slice(0, 4097, 9000)) == norm_of(flat.slice(0, 4097, 9000).clone()));
  CHECK(norm_of(flat.view({100, 100}).t()) == norm_of(flat));
  CHECK_THROWS_AS(norm_of(flat.slice(0, 0, 10000, 2)), std::logic_error);  // strided: a caller's bug
}

TEST_CASE("infinities and NaN are seen") {
  at::Tensor x = at::ones({5000}, at::kHalf);
  x[4999] = INFINITY;
  CHECK(std::isinf(norm_of(x)));
  x[17] = NAN;
  CHECK(std::isnan(norm_of(x)));
}

TEST_CASE("a parameter that requires grad may be measured and filled") {
  at::Tensor leaf = at::ones({3}, at::kDouble).set_requires_grad(true);
  at::Tensor out = at::zeros({1}, at::kDouble);
  squared_norms(out, {leaf});
  CHECK(out.item<double>() == 3);
  CHECK_FALSE(out.requires_grad());
}

}  // namespace norm_test
