#pragma once
// The kernel's launcher.
#include <capstan/kernels/launcher.h>

namespace gpt_oss {

/// See clamped_swiglu.h: x is [rows, 2 columns], out [rows, columns]; with a gradient, d / dx [rows, 2 columns].
struct ClampedSwigluCall {
  void* out;
  const void* gradient;  ///< [rows, columns]; null: forward
  const void* x;
  const void* bias;           ///< [groups, 2 columns]; null: none
  const std::int64_t* group;  ///< [rows]; null without biases
  capstan::kernels::FloatType type;
  std::int64_t rows, columns;
  double limit, slope;
};

/// It queues and returns; a failed launch is seen by cudaGetLastError.
void clamped_swiglu_pass(const ClampedSwigluCall& call, CUstream_st* stream);

}  // namespace gpt_oss
