#pragma once
// The updating kernel's launcher.
#include <capstan/kernels/launcher.h>

#include "arithmetic.h"

namespace adam8bit {

using capstan::kernels::FloatType;

/// Numbers on the device: see optimizer::Update.
struct OnDevice {
  const double* updates;
  const float* grad_scale;
  const float* skip;
};

/// Slices that one launch updates, small enough for a kernel's arguments (4 KiB).
struct List {
  static constexpr int capacity = 40;
  static constexpr std::int64_t tile = 64 * block;  ///< elements that a thread block updates
  int count = 0;
  void* master[capacity];
  const void* grad[capacity];
  std::uint8_t* codes[capacity];
  float* scales[capacity];
  std::uint8_t* square_codes[capacity];
  float* square_scales[capacity];
  void* copy[capacity];  ///< null in all or in none
  std::int64_t numel[capacity];
  std::int64_t first_tile[capacity + 1] = {};
  double lr[capacity], weight_decay[capacity];
  Settings by;
  OnDevice progress;
};

struct Types {
  FloatType master;
  FloatType gradient;  ///< the masters', or float32 masters' copies'
  FloatType copy;      ///< 16 bits
};

/// Queues and returns; a failed launch is seen by cudaGetLastError.
void update(const List& list, const Types& types, CUstream_st* stream);

}  // namespace adam8bit
