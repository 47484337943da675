#pragma once
// The updating kernel's launcher.
#include <capstan/kernels/launcher.h>

namespace capstan::adamw {

using kernels::FloatType;

struct Numbers {
  float lr, beta1, beta2, decay, eps;
  const float* updates;  ///< on the device, as the next two
  const float* grad_scale;
  const float* skip;
};

/// Tensors that one launch updates: see lists.h; small enough for a kernel's arguments (4 KiB).
struct List {
  static constexpr int capacity = 64;
  static constexpr std::int64_t block = 16384;  ///< elements of a thread block
  int count = 0;
  void* master[capacity];
  void* average[capacity];
  void* square[capacity];
  const void* grad[capacity];
  void* copy[capacity];  ///< null in all or in none
  std::int64_t numel[capacity];
  std::int64_t first_block[capacity + 1] = {};  ///< tensor t has blocks first_block[t] up to first_block[t + 1]
  Numbers by;
};

/// See takes (lists.h).
struct Types {
  FloatType master;    ///< and of the states
  FloatType gradient;  ///< the masters', or float32 masters' copies'
  FloatType copy;      ///< 16 bits
};

/// Queues and returns; a failed launch is seen by cudaGetLastError.
void update(const List& list, const Types& types, CUstream_st* stream);

}  // namespace capstan::adamw
