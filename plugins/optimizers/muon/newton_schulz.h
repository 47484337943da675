#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

namespace muon {

/// Makes each of the matrices [n, rows, cols] nearly orthogonal, in place: U V^T of its singular value decomposition
/// with singular values between about 0.7 and 1.2, by `steps` of the quintic iteration of Jordan et al. 2024. A zero
/// matrix stays zero.
void orthogonalise_(const at::Tensor& matrices, std::int64_t steps);

/// Floating-point operations for one matrix, and the memory that they take besides it.
double newton_schulz_work(std::int64_t rows, std::int64_t cols, std::int64_t steps);
std::int64_t newton_schulz_bytes(std::int64_t rows, std::int64_t cols, c10::ScalarType dtype);

}  // namespace muon
