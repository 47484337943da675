#pragma once
// The checksum of checksum.h, for both the CPU and the CUDA kernel.
#include <capstan/base/host_device.h>

#include <cstdint>

namespace capstan::kernels {

/// What element `index` with these bits adds to its tensor's checksum: SplitMix64's output function (Steele, Lea and
/// Flood 2014) of the bits, at a place of their own in its sequence. Terms are added modulo 2^64, in any order.
CAPSTAN_HOST_DEVICE inline std::uint64_t checksum_term(std::uint64_t bits, std::int64_t index) {
  std::uint64_t x = bits + (static_cast<std::uint64_t>(index) + 1) * 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

}  // namespace capstan::kernels
