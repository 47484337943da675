#pragma once
// The CUDA kernels' launchers.
#include <capstan/kernels/heads.h>
#include <capstan/kernels/launcher.h>

#include "kernels/box_index.h"
#include "kernels/random_numbers.h"

namespace capstan::kernels {

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

/// out[t] = sum of tensor t's squares, in norm.h's order. `sums` has room for first_block[count] numbers.
void squared_norms(const NormList& list, double* sums, double* out, CUstream_st* stream);

/// out[t] += checksum of tensor t's bits (checksum.h), modulo 2^64.
void add_checksums(const NormList& list, std::int64_t* out, CUstream_st* stream);

/// Lists that one launch adds: 16-bit tensors, and the float32 ones that they are added to.
struct AddList {
  NormList from;
  float* to[NormList::capacity];
};

void add_lists(const AddList& list, CUstream_st* stream);

/// to[ids[i] - first] += from[order[i]] for all i whose id is in [first, first + rows): see table_rows.h.
struct RowsCall {
  void* to;  ///< [rows, columns]
  FloatType to_type;
  std::int64_t rows, first;
  const std::int64_t* ids;  ///< [count], in order
  const std::int64_t* order;
  std::int64_t count;
  const void* from;  ///< [count, columns]
  FloatType from_type;
  std::int64_t columns;
};

void add_table_rows(const RowsCall& call, CUstream_st* stream);

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

/// Can a cluster of thread blocks hold a row? Asks the current device.
bool takes_whole_rows(const SoftmaxRows& rows);
/// The losses [rows] and, in place, the gradient as softmax_gradient writes it; zero where no column is picked.
void softmax_whole_rows(const SoftmaxRows& rows, FloatType type, float scale, float* losses, CUstream_st* stream);

/// out[i] = x[i] · factor[0], rounded to `type`, which has 16 bits; x and out begin at whole 16 bytes.
void scaled(void* out, FloatType type, const float* x, const float* factor, std::int64_t numel, CUstream_st* stream);

/// Writes up to three lists of heads one after the other to `out`, which lies as `to` says; the first `turned` heads
/// turn, by the opposite angle if `inverse`, and the others are copied. `out` may be what is read.
struct RotaryCall {
  Heads from[3];
  Heads to;
  void* out;
  int heads, turned, half;
  bool inverse;
  FloatType type;
  std::int64_t batch, length;
  const std::int64_t* positions;  ///< [batch, length], contiguous
  RotaryFrequencies frequencies;
};

void rotary(const RotaryCall& call, CUstream_st* stream);

/// One token a row against a cache: see decode_attention.h. q, k and v have one place; k and v join the cache there.
struct DecodeCall {
  Heads q, k, v;
  void* keys;  ///< [batch, kv heads, capacity, dim], as values
  void* values;
  void* out;      ///< [batch, heads, dim]
  void* partial;  ///< [batch, heads, blocks, dim + 2] in float32; null where there is one block
  FloatType type;
  const std::int64_t* positions;  ///< [batch]
  const void* slopes;             ///< [heads] float32; null: no biases
  std::int64_t batch, capacity, window;
  int dim;
  double scale;
};
/// Blocks of keys of a cache, each a thread block's.
constexpr std::int64_t decode_keys = 512;
void decode_attention(const DecodeCall& call, CUstream_st* stream);

/// A norm of rows of `columns` numbers: see add_norm.h. Null: y and sum where nothing is added, bias and mean where it
/// is an RMS norm.
struct NormCall {
  const void *x, *y, *weight, *bias;
  void *sum, *out;
  void* mean;  ///< [rows], as rstd, in float32; in float64 for float64 numbers
  void* rstd;
  FloatType type;
  std::int64_t rows;
  int columns;
  double epsilon;
  bool adds_one;  ///< to the weight
};

/// Elements of a pack of 16 bytes.
constexpr int pack_of(FloatType type) { return type == FloatType::float64 ? 2 : type == FloatType::float32 ? 4 : 8; }
/// Rows that the two kernels take: whole packs, all of them in a thread block's registers.
constexpr bool norm_fits(FloatType type, std::int64_t columns) {
  constexpr int packs = 4096;
  return columns % pack_of(type) == 0 && columns <= std::int64_t{packs} * pack_of(type);
}

void add_norm(const NormCall& call, CUstream_st* stream);

/// out = d / dx of the norm for the gradient `normed`, plus `residual` (null: none).
struct NormBackward {
  const void *residual, *normed, *x, *weight;
  const void* mean;  ///< null: an RMS norm
  const void* rstd;
  void* out;
  FloatType type;
  std::int64_t rows;
  int columns;
  bool adds_one;
};
void add_norm_backward(const NormBackward& call, CUstream_st* stream);

/// Sums over the rows of x [rows, columns], see column_sums.h: with rstd the sum of x · (of - mean) · rstd goes to
/// `out` and, with a mean, the sum of x to `second`.
struct ColumnCall {
  const void *x, *of, *mean, *rstd;
  void* parts;  ///< a number for each column of each of `count` parts and each result, in the sums' type
  void *out, *second;
  FloatType type;
  std::int64_t rows, columns;
  int count;
};
void column_sums(const ColumnCall& call, CUstream_st* stream);

/// See grouped.h: `order` and `place` [rows], `counts` [groups].
struct GroupRowsCall {
  const std::int64_t* group;
  std::int64_t* order;  ///< null, as place is: rows are only counted
  std::int64_t* place;
  std::int64_t* counts;
  std::int64_t rows, groups;
};
void group_rows(const GroupRowsCall& call, CUstream_st* stream);

/// out[t] = sum over c of weights[t, c] · rows[place[t · copies + c]]; no weights: 1. See combine_rows.h.
struct CombineCall {
  const void* rows;
  const std::int64_t* place;
  const void* weights;
  void* out;
  FloatType type;
  std::int64_t tokens, columns;
  int copies;
};
void combine_rows(const CombineCall& call, CUstream_st* stream);

/// Backward of rows [n, columns], where row i is copy order[i] % copies of token order[i] / copies.
struct CombineBackward {
  const void* gradient;  ///< [tokens, columns]
  const void* rows;
  const std::int64_t* order;
  const void* weights;
  void *of_rows, *of_weights;
  FloatType type;
  std::int64_t n, columns;
  int copies;
};
void combine_rows_backward(const CombineBackward& call, CUstream_st* stream);

/// As ops/activation.h's.
enum class ActivationKind : std::int64_t { gelu, gelu_tanh, swiglu, geglu_tanh };

/// out = the activation of x, or with a gradient d / dx of it; all contiguous.
struct ActivationCall {
  void* out;
  void* gradient;  ///< null: forward
  const void* x;
  FloatType type;
  std::int64_t rows, columns;  ///< what the activation gives; one row where nothing is gated
  ActivationKind kind;
  bool again;  ///< what the activation gives takes the gradient's place
};
void activation(const ActivationCall& call, CUstream_st* stream);

}  // namespace capstan::kernels
