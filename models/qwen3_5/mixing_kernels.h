#pragma once
// The launchers of the kernels of the causal convolution and of the gate.
#include <capstan/kernels/launcher.h>

namespace qwen3_5 {

inline constexpr int convolution_taps = 4;  // the only width that has a kernel
inline constexpr int convolution_run = 32;  // tokens that a thread goes along

/// The convolution of causal_convolution.h: x [batch, length, channels] with strides in elements and 1 for channels, a
/// multiple of 8 that is read by 16 bytes; w [channels, 1, 4]; bfloat16 or half.
struct ConvolutionCall {
  capstan::kernels::FloatType type;
  std::int64_t batch, length, channels;
  const void *x, *w;
  std::int64_t batch_stride, token_stride;
  const std::int64_t* positions;  ///< null: a token sees all of its row
  std::int64_t position_strides[2];
  void* out;  ///< [batch, length, channels]
  // Backward.
  const void* gradient;  ///< [batch, length, channels], contiguous
  void* of_x;            ///< the same
  float* of_w;           ///< [batch · parts of convolution_run tokens, channels, 4], to be added. Null: not needed
};

/// x · silu(z) of rows: x and `gradient` [rows, columns], z's rows `z_stride` apart, columns a multiple of 8.
struct GateCall {
  capstan::kernels::FloatType type;
  std::int64_t rows, columns, z_stride;
  const void *x, *z;
  void* out;
  const void* gradient;
  void *of_x, *of_z;  ///< [rows, columns]
};

/// They queue and return; a failed launch is seen by cudaGetLastError.
void convolution(const ConvolutionCall& call, CUstream_st* stream);
void convolution_back(const ConvolutionCall& call, CUstream_st* stream);
void gate(const GateCall& call, CUstream_st* stream);
void gate_back(const GateCall& call, CUstream_st* stream);

}  // namespace qwen3_5
