#pragma once
#include <capstan/kernels/launcher.h>

namespace gpu_sum {

/// out[i] = i * x[i] for `count` numbers of `type` in device memory.
void times_index(void* out, const void* x, capstan::kernels::FloatType type, std::int64_t count, CUstream_st* stream);

}  // namespace gpu_sum
