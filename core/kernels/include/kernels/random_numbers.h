#pragma once
// What the CPU and the CUDA kernels share: from Philox words to the numbers that fill_normal and dropout promise.
#include <capstan/base/philox.h>

#include <cmath>
#include <cstdint>

namespace capstan::kernels {

struct NormalPair {
  double value[2];
};

/// Two standard normals from Philox block `block`: sqrt(-2 ln u) (cos, sin)(2 pi v), u in (0, 1] and v in [0, 1) of
/// 53 bits. v is first reduced to the nearest quarter turn, which is exact, so that the angle that sin and cos see is
/// at most pi/4 and its rounding is relative to the result.
CAPSTAN_HOST_DEVICE inline NormalPair normal_pair(PhiloxKey key, std::uint64_t block) {
  constexpr double unit = 1.0 / 9007199254740992.0;  // 2^-53
  constexpr double two_pi = 6.283185307179586476925286766559;
  const PhiloxBlock bits =
      philox({{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(block >> 32), 0u, 0u}}, key);
  const std::uint64_t first = (std::uint64_t{bits.word[0]} << 32 | bits.word[1]) >> 11;
  const std::uint64_t second = (std::uint64_t{bits.word[2]} << 32 | bits.word[3]) >> 11;
  const double radius = std::sqrt(-2.0 * std::log(static_cast<double>(first + 1) * unit));
  const double turn = static_cast<double>(second) * unit;
  const int quarter = static_cast<int>(4.0 * turn + 0.5);  // NOLINT(bugprone-incorrect-roundings): turn is not negative
  const double angle = two_pi * (turn - 0.25 * quarter);
#ifdef __CUDA_ARCH__
  double cosine, sine;
  sincos(angle, &sine, &cosine);
#else
  double cosine = std::cos(angle), sine = std::sin(angle);
#endif
  if (quarter % 2 != 0) {
    const double kept = cosine;
    cosine = -sine;
    sine = kept;
  }
  const double signed_radius = quarter % 4 >= 2 ? -radius : radius;
  return {{signed_radius * cosine, signed_radius * sine}};
}

/// Elements of a row that share a Philox block of dropout.
inline constexpr int dropout_lanes = 4;

/// The words of elements 4 * block to 4 * block + 3 of a sample's row at a step.
CAPSTAN_HOST_DEVICE inline PhiloxBlock dropout_words(PhiloxKey key, std::int64_t step, std::int64_t sample,
                                                     std::int64_t block) {
  return philox({{static_cast<std::uint32_t>(block), static_cast<std::uint32_t>(step),
                  static_cast<std::uint32_t>(sample), static_cast<std::uint32_t>(sample >> 32)}},
                key);
}

/// An element is kept when its word is at least `threshold` = p 2^32, and is then multiplied by `scale`.
struct DropoutRule {
  PhiloxKey key;
  std::uint64_t threshold;
  double scale;
};

}  // namespace capstan::kernels
