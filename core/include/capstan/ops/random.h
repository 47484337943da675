#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Fills `out` with its box of the logical tensor `name` of normal numbers.
///
/// The value of a logical element depends only on (seed, name, its flat index in `logical_shape`), so any box, on
/// any rank and device, equals that slice of the full tensor. `out` is contiguous, float64, float32, bfloat16 or half,
/// has `logical_shape`'s number of dimensions (at most 8) and begins at `offsets`. Runs on the current stream; autograd
/// records nothing.
///
/// Numbers: Box and Muller's transform in double precision on every device, two elements from one Philox block
/// (block i gives elements 2i and 2i+1). A float64 tensor holds mean + std * n itself, a float32 one its rounding, a
/// 16-bit one the rounding of the float32 value. CPU and CUDA take the same integers, but log, sin and cos of two
/// libraries: the doubles agree to a few units in the last place, so float32 values differ in about one element of
/// 10^8, by one unit.
void fill_normal(const at::Tensor& out, double mean, double std, std::uint64_t seed, std::string_view name,
                 const std::vector<std::int64_t>& logical_shape, const std::vector<std::int64_t>& offsets);

/// The same with numbers drawn evenly from [low, high): 53 bits of one Philox block an element (block i gives elements
/// 2i and 2i+1). Always drawn on the host, so that the bits are the same for every device: for small tensors such as
/// adapters.
void fill_uniform(const at::Tensor& out, double low, double high, std::uint64_t seed, std::string_view name,
                  const std::vector<std::int64_t>& logical_shape, const std::vector<std::int64_t>& offsets);

/// What a dropout mask depends on.
struct DropoutKey {
  std::uint64_t seed = 0;  ///< the run's
  std::uint64_t site = 0;  ///< stable_hash of the place in the model ("blocks.3.mlp"); two sites draw independent masks
  std::int64_t step = 0;   ///< optimizer step; only its low 32 bits are used
  /// int64 with one element on x's device: the step, read when the kernel runs, in place of `step`, so that a captured
  /// graph can be replayed at every step. It must not change between forward and backward. Undefined: `step` is used.
  at::Tensor device_step;
  /// [B] int64 on x's device: the run-wide id of the sample in each row of dimension 0.
  at::Tensor sample_ids;
  /// Shape of the full row (without dimension 0) when x holds only a box of it, as under sequence or tensor
  /// parallelism, and where in it x's row begins. Both empty: x holds full rows.
  std::vector<std::int64_t> row_shape;
  std::vector<std::int64_t> row_offset;
};

/// x with each element zeroed with probability p and the others multiplied by 1 / (1 - p): `x` is [B, ...] with at
/// most 8 dimensions after the first (hidden states [B, S, h], attention probabilities [B, heads, Sq, Sk]).
///
/// Whether an element is kept depends only on (seed, site, step, its row's sample id, its flat index in the full row):
/// it is the same on CPU and CUDA, for any placement of samples and any sharding of a row. Backward draws the mask
/// again and keeps only the key, so it works inside a re-entrant recompute, under no_grad and twice. p is in [0, 1)
/// and is applied in steps of 2^-32; p = 0 returns x itself. A full row has at most 2^34 elements. float64, float32,
/// bfloat16, half; the product is taken in float32 (float64 for float64) and rounded once. Throws Error for p outside
/// its range. Uses the current stream.
at::Tensor dropout(const at::Tensor& x, double p, const DropoutKey& key);

}  // namespace ops
CAPSTAN_END_NAMESPACE
