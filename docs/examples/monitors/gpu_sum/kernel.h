#pragma once
#include <cstdint>

struct CUstream_st;

namespace gpu_sum {

/// out[i] = i * x[i] for `count` numbers in device memory, on `stream`.
void times_index(const float* x, float* out, std::int64_t count, CUstream_st* stream);

}  // namespace gpu_sum
