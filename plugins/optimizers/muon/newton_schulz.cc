#include "newton_schulz.h"

#include <ATen/ATen.h>

#include <algorithm>

namespace muon {

void orthogonalise_(const at::Tensor& matrices, std::int64_t steps) {
  // Jordan et al.'s: the slope at zero is as large as it can be while singular values stay near 1.
  constexpr double a = 3.4445, b = -4.7750, c = 2.0315;
  constexpr double least_norm = 1e-7;
  const bool is_high = matrices.size(1) > matrices.size(2);
  const auto wide = is_high ? matrices.transpose(1, 2) : matrices;  // products with itself are then the smaller ones
  const auto exact = matrices.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto norm = at::norm(matrices, 2, {1, 2}, /*keepdim=*/true, exact);
  auto x = wide / (norm + least_norm).to(matrices.scalar_type());
  for (std::int64_t step = 0; step < steps; ++step) {
    const auto square = at::bmm(x, x.transpose(1, 2));
    const auto factor = at::baddbmm(square, square, square, b, c);
    x = at::baddbmm(x, factor, x, a, 1);
  }
  wide.copy_(x);
}

double newton_schulz_work(std::int64_t rows, std::int64_t cols, std::int64_t steps) {
  const auto least = static_cast<double>(std::min(rows, cols)), most = static_cast<double>(std::max(rows, cols));
  return static_cast<double>(steps) * 2 * least * least * (2 * most + least);
}

// Two of the iteration's matrices, its square and its factor.
std::int64_t newton_schulz_bytes(std::int64_t rows, std::int64_t cols, c10::ScalarType dtype) {
  const auto least = std::min(rows, cols);
  return 2 * (rows * cols + least * least) * static_cast<std::int64_t>(c10::elementSize(dtype));
}

}  // namespace muon
