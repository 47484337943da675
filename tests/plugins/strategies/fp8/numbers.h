#pragma once
// The 8-bit formats, written from their definition and not by ATen's conversions.
#include <ATen/ATen.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace fp8_test {

/// Micikevicius et al. 2022, table 1: exponent and mantissa bits, bias, and the largest number.
struct Format {
  int mantissa;
  int bias;
  double largest;
};
inline constexpr Format e4m3{3, 7, 448};
inline constexpr Format e5m2{2, 15, 57344};

/// All numbers of the format that are not negative, ascending; their places are even where the last bit is 0.
inline std::vector<double> numbers(const Format& format) {
  std::vector<double> all;
  const int steps = 1 << format.mantissa;
  for (int code = 0;; ++code) {
    const int exponent = code / steps, digits = code % steps;
    const double value = exponent == 0 ? std::ldexp(digits, 1 - format.bias - format.mantissa)
                                       : std::ldexp(steps + digits, exponent - format.bias - format.mantissa);
    all.push_back(value);
    if (value == format.largest) return all;
  }
}

/// The nearest number of the format; the even one if two are equally near.
inline double rounded(double x, const Format& format) {
  const auto all = numbers(format);
  std::size_t best = 0;
  for (std::size_t i = 1; i < all.size(); ++i) {
    const double here = std::abs(std::abs(x) - all[i]), there = std::abs(std::abs(x) - all[best]);
    if (here < there || (here == there && i % 2 == 0)) best = i;
  }
  return std::copysign(all[best], x);
}

/// The smallest power of two by which `largest` can be divided to be in range.
inline double scale_for(double largest, const Format& format) {
  double scale = std::ldexp(1, -126);
  while (largest / scale > format.largest) scale *= 2;
  return scale;
}

/// x [r, k] float64 as what its rows stand for in the format: [r, k] float64. `by_row`: a scale each.
inline at::Tensor as_scaled(const at::Tensor& x, bool by_row, const Format& format) {
  at::Tensor out = x.to(at::kDouble).clone(at::MemoryFormat::Contiguous);
  const auto rows = out.size(0), columns = out.size(1);
  auto* value = out.data_ptr<double>();
  const auto whole = out.abs().max().item<double>();
  for (std::int64_t i = 0; i < rows; ++i) {
    const auto scale = scale_for(by_row ? out[i].abs().max().item<double>() : whole, format);
    for (std::int64_t j = 0; j < columns; ++j) {
      auto& each = value[i * columns + j];
      each = scale * rounded(each / scale, format);
    }
  }
  return out;
}

/// The same with a scale for each 128 neighbours of `rows` rows, in e4m3.
inline at::Tensor in_blocks(const at::Tensor& x, std::int64_t rows) {
  constexpr std::int64_t columns = 128;
  at::Tensor out = x.to(at::kDouble).clone(at::MemoryFormat::Contiguous);
  for (std::int64_t i = 0; i < out.size(0); i += rows) {
    for (std::int64_t j = 0; j < out.size(1); j += columns) {
      const auto block = out.slice(0, i, i + rows).slice(1, j, j + columns);
      block.copy_(as_scaled(block, false, e4m3));
    }
  }
  return out;
}

/// Values of many magnitudes, by row and by column.
inline at::Tensor drawn(at::IntArrayRef shape) {
  at::Tensor x = at::randn(shape, at::kDouble);
  x.mul_(at::randn({shape[shape.size() - 2], 1}, at::kDouble).mul(2).exp());
  return x.mul_(at::randn({1, shape.back()}, at::kDouble).exp());
}

}  // namespace fp8_test
