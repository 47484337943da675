#pragma once
// The CUDA kernels' launchers: raw pointers, sizes and a stream, because a .cu file that includes ATen takes ten times
// as long to compile. They queue and return; a failed launch is seen by cudaGetLastError.
#include <cstdint>

#include "ops/box_index.h"
#include "ops/random_numbers.h"

struct CUstream_st;  // what cudaStream_t points to

namespace capstan::ops::cuda {

enum class FloatType : int { float64, float32, bfloat16, half };

/// out[i] for i < numel: element box(i) of the stream of normals. See fill_normal.
void fill_normal(void* out, FloatType type, std::int64_t numel, const BoxIndex& box, double mean, double std,
                 PhiloxKey key, CUstream_st* stream);

/// The step as a number, or its address on the device.
struct DropoutStep {
  std::int64_t value;
  const std::int64_t* device;  ///< null: value is used
};

/// `batch` rows of `row` elements, each row a box of its sample's full row.
struct DropoutShape {
  std::int64_t batch;
  std::int64_t row;
  BoxIndex box;
};

/// See dropout. `samples` holds one id a row, on the device.
void dropout(void* out, const void* x, FloatType type, const DropoutShape& shape, const DropoutRule& rule,
             DropoutStep step, const std::int64_t* samples, CUstream_st* stream);

/// Tensors that one launch sums; small enough for a kernel's arguments (4 KiB).
struct NormList {
  static constexpr int capacity = 64;
  int count = 0;
  const void* data[capacity];
  std::int64_t numel[capacity];
  FloatType type[capacity];
  std::int64_t first_block[capacity + 1] = {};  ///< tensor t owns blocks first_block[t] up to first_block[t + 1]
};

/// out[t] (+)= sum of tensor t's squares, in norm.h's order. `sums` has room for first_block[count] numbers.
void squared_norms(const NormList& list, double* sums, double* out, bool accumulate, CUstream_st* stream);

/// out[t] += checksum of tensor t's bits (checksum.h), modulo 2^64.
void add_checksums(const NormList& list, std::int64_t* out, CUstream_st* stream);

/// Lists that one launch adds: 16-bit tensors, and the float32 ones that they are added to.
struct AddList {
  NormList from;
  float* to[NormList::capacity];
};

void add_lists(const AddList& list, CUstream_st* stream);

/// Logits [rows, columns] in float32, and a column of each row or none.
struct SoftmaxRows {
  float* logits;
  const std::int64_t* column;
  std::int64_t rows, columns;
};

/// See softmax_rows.h; `rows` is read only.
void softmax_statistics(const SoftmaxRows& rows, float* maximum, float* sum, float* picked, CUstream_st* stream);

struct SoftmaxGradient {
  const float* maximum;
  const float* sum;
  float scale;
  FloatType type;
};

void softmax_gradient(const SoftmaxRows& rows, const SoftmaxGradient& of, CUstream_st* stream);

/// x as batch rows of `length` tokens of `heads` heads of 2 half numbers; strides in elements, the last one is 1.
struct RotaryShape {
  std::int64_t batch, length;
  int heads, half;
  std::int64_t batch_stride, token_stride, head_stride;
};

/// In a kernel's arguments, so that nothing is copied to the device.
struct RotaryFrequencies {
  static constexpr int capacity = 256;
  double value[capacity];
};

/// See rotary. `out` is contiguous; `inverse` rotates back.
void rotary(void* out, const void* x, FloatType type, const std::int64_t* positions, const RotaryShape& shape,
            const RotaryFrequencies& frequencies, bool inverse, CUstream_st* stream);

/// See swiglu: x is [rows, 2 columns], contiguous, out [rows, columns].
void swiglu(void* out, const void* x, FloatType type, std::int64_t rows, std::int64_t columns, CUstream_st* stream);
/// out [rows, 2 columns] = d / dx for a gradient [rows, columns].
void swiglu_backward(void* out, const void* gradient, const void* x, FloatType type, std::int64_t rows,
                     std::int64_t columns, CUstream_st* stream);

}  // namespace capstan::ops::cuda
