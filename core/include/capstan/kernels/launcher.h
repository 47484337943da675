#pragma once
// What kernels' launchers are declared and called with. A .cu file includes no ATen, with which it takes ten times as
// long to compile: a launcher has raw pointers, sizes and a stream. It queues and returns; a failed launch is seen by
// cudaGetLastError (ops/launch.cuh).
#include <capstan/base/host_device.h>

#include <cstddef>
#include <cstdint>

struct CUstream_st;  // what cudaStream_t points to

namespace capstan::kernels {

enum class FloatType : int { float64, float32, bfloat16, half };

/// Does it begin at whole `bytes`? Null does.
CAPSTAN_HOST_DEVICE inline bool is_aligned(const void* pointer, std::size_t bytes = 16) {
  return reinterpret_cast<std::uintptr_t>(pointer) % bytes == 0;
}

/// How many parts of `size` make up `all`, the last one perhaps smaller.
CAPSTAN_HOST_DEVICE constexpr std::int64_t parts_of(std::int64_t all, std::int64_t size) {
  return (all + size - 1) / size;
}

}  // namespace capstan::kernels
