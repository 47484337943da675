// The iteration against what it does to singular values.
#include "plugins/optimizers/muon/newton_schulz.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

namespace newton_schulz_test {

namespace {

// U f(S) V^T, where f is the quintic polynomial, `steps` times.
at::Tensor reference(const at::Tensor& matrix, std::int64_t steps) {
  const auto [u, singular, v] = at::linalg_svd(matrix, /*full_matrices=*/false);
  auto s = singular / (singular.square().sum().sqrt() + 1e-7);
  for (std::int64_t i = 0; i < steps; ++i) s = 3.4445 * s - 4.7750 * s.pow(3) + 2.0315 * s.pow(5);
  return at::matmul(u * s, v);
}

at::Tensor random_matrices(std::int64_t n, std::int64_t rows, std::int64_t cols) {
  const auto i = at::arange(n * rows * cols, at::kDouble);
  return ((i * 1.3).sin() + (i * i * 0.01).cos() * 3).view({n, rows, cols});
}

double apart(const at::Tensor& a, const at::Tensor& b) { return (a - b).abs().max().item<double>(); }

}  // namespace

TEST_CASE("the iteration is its polynomial of the singular values, for any shape and number of steps") {
  const auto [rows, cols] = GENERATE(values<std::pair<int, int>>({{5, 5}, {3, 8}, {9, 4}, {1, 6}, {7, 1}}));
  const auto steps = GENERATE(1, 5, 7);
  INFO(rows << " x " << cols << ", " << steps << " steps");
  const auto matrices = random_matrices(3, rows, cols);
  auto mine = matrices.clone();
  muon::orthogonalise_(mine, steps);
  for (std::int64_t i = 0; i < 3; ++i) CHECK(apart(mine[i], reference(matrices[i], steps)) < 1e-12);
}

TEST_CASE("five steps bring every singular value that is not tiny near 1") {
  auto matrix = random_matrices(1, 12, 20);
  muon::orthogonalise_(matrix, 5);
  const auto values = std::get<1>(at::linalg_svd(matrix[0]));
  CHECK(values.min().item<double>() > 0.6);
  CHECK(values.max().item<double>() < 1.25);
}

TEST_CASE("a zero matrix stays zero, and only its factor is lost of another one") {
  auto zero = at::zeros({2, 4, 3}, at::kDouble);
  muon::orthogonalise_(zero, 5);
  CHECK(zero.count_nonzero().item<std::int64_t>() == 0);
  auto matrix = random_matrices(1, 4, 6), larger = matrix * 1e4;
  muon::orthogonalise_(matrix, 5);
  muon::orthogonalise_(larger, 5);
  CHECK(apart(matrix, larger) < 1e-5);  // the norm's epsilon
}

TEST_CASE("narrow types give nearly the same") {
  const auto matrices = random_matrices(2, 16, 24);
  auto exact = matrices.clone();
  muon::orthogonalise_(exact, 5);
  for (const auto& [type, tolerance] : {std::pair(at::kFloat, 1e-4), std::pair(at::kBFloat16, 0.15)}) {
    auto mine = matrices.to(type);
    muon::orthogonalise_(mine, 5);
    CHECK(mine.scalar_type() == type);
    CHECK(apart(mine.to(at::kDouble), exact) < tolerance);
  }
}

TEST_CASE("work counts the products, and memory the iteration's four matrices") {
  CHECK(muon::newton_schulz_work(3, 7, 5) == 5 * (2 * 3 * 3 * 7 + 2 * 3 * 3 * 3 + 2 * 3 * 3 * 7));
  CHECK(muon::newton_schulz_work(7, 3, 5) == muon::newton_schulz_work(3, 7, 5));
  CHECK(muon::newton_schulz_bytes(3, 7, at::kBFloat16) == std::int64_t{2} * (2 * 21 + 2 * 9));
}

}  // namespace newton_schulz_test
