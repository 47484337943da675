#pragma once
// A Philox key as the dispatcher passes it to fill_normal and dropout.
#include <cmath>
#include <cstdint>

#include "kernels/random_numbers.h"

namespace capstan::ops {

inline std::int64_t key_bits(PhiloxKey key) {
  return static_cast<std::int64_t>(std::uint64_t{key.word[1]} << 32 | key.word[0]);
}
inline PhiloxKey key_from_bits(std::int64_t bits) {
  const auto whole = static_cast<std::uint64_t>(bits);
  return {{static_cast<std::uint32_t>(whole), static_cast<std::uint32_t>(whole >> 32)}};
}

/// Dropout's numbers for probability p and a key's bits.
inline kernels::DropoutRule dropout_rule(double p, std::int64_t key) {
  return {key_from_bits(key), static_cast<std::uint64_t>(std::llround(std::ldexp(p, 32))), 1.0 / (1.0 - p)};
}

}  // namespace capstan::ops
