#pragma once
// The order of summation that norm.h promises, for both the CPU and the CUDA kernel.
#include <capstan/kernels/launcher.h>

namespace capstan::kernels {

/// Elements that one block adds, and the lanes that it adds them in.
inline constexpr std::int64_t sum_block = 4096;
inline constexpr int sum_lanes = 256;

CAPSTAN_HOST_DEVICE inline std::int64_t sum_blocks(std::int64_t numel) { return parts_of(numel, sum_block); }

}  // namespace capstan::kernels
