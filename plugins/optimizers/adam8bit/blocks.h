#pragma once
// Slices in host memory, block by block.
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "arithmetic.h"

namespace adam8bit {

/// How many blocks `elements` fill; the last may be short.
constexpr std::int64_t blocks_of(std::int64_t elements) { return (elements + block - 1) / block; }

/// A record's states in 8 bits, in the order of Rule::states(): the codes have [n] elements, the scales [n / 256].
struct Moments {
  std::uint8_t* codes;
  float* scales;
  std::uint8_t* square_codes;
  float* square_scales;
};
Moments moments_of(const at::Tensor& codes, const at::Tensor& scales, const at::Tensor& square_codes,
                   const at::Tensor& square_scales);

/// One slice's tensors, which are on CPU.
struct Part {
  at::Tensor master, grad;
  Moments moments;
  at::Tensor copy;  ///< undefined: none
};

/// Updates all elements, on ATen's number of threads.
void update(const Part& part, const Numbers& by);

/// The moments' values, [n] float32 each, and the moments of such values. Where blocks are those of the moments that
/// the values came from, they come back to the bit.
void decode(const Moments& moments, std::int64_t n, float* average, float* square);
void encode(const Moments& moments, std::int64_t n, const float* average, const float* square);

}  // namespace adam8bit
