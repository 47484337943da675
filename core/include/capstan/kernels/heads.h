#pragma once
// Heads of attention, and the angles that they turn by, as kernels get them.
#include <capstan/kernels/launcher.h>

namespace capstan::kernels {

/// Heads [batch, length, heads, dim] wherever they lie; strides in elements, that of the last dimension is 1.
struct Heads {
  const void* data;
  int heads;
  std::int64_t batch_stride, token_stride, head_stride;
  CAPSTAN_HOST_DEVICE std::int64_t offset(std::int64_t row, std::int64_t place, int head) const {
    return row * batch_stride + place * token_stride + head * head_stride;
  }
  /// Can they be read in packs of `width` elements from `begin` on?
  bool fits(const void* begin, int width, std::size_t element) const {
    return is_aligned(begin, static_cast<std::size_t>(width) * element) && batch_stride % width == 0 &&
           token_stride % width == 0 && head_stride % width == 0;
  }
};

/// It travels in a kernel's arguments, so that nothing is copied to the device.
struct RotaryFrequencies {
  static constexpr int capacity = 256;
  double value[capacity];
};

}  // namespace capstan::kernels
