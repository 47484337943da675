#pragma once
// The format's constants: for the host's code and for kernels.
#include <array>
#include <cstdint>

namespace mxfp4 {

inline constexpr std::int64_t group = 32;  ///< elements that share a scale

/// What a code of four bits is: a sign, two bits of exponent, one of mantissa (e2m1).
inline constexpr std::array<float, 16> numbers{0.0F,  0.5F,  1.0F,  1.5F,  2.0F,  3.0F,  4.0F,  6.0F,
                                               -0.0F, -0.5F, -1.0F, -1.5F, -2.0F, -3.0F, -4.0F, -6.0F};
inline constexpr int bias = 127;  ///< what a scale's byte is above its exponent of 2 (e8m0)

}  // namespace mxfp4
