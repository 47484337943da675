#pragma once
// The two code books of bitsandbytes' "dynamic" 8 bits (Dettmers et al. 2022, "8-bit optimizers via block-wise
// quantization", section 1.3), and tables that find a number's nearest code: for the host's code and for kernels.
#include <bit>
#include <cstdint>

#ifdef __CUDACC__
#define ADAM8BIT_ANYWHERE __host__ __device__ inline
#else
#define ADAM8BIT_ANYWHERE inline
#endif

namespace adam8bit {

inline constexpr int block = 256;  ///< elements that share a scale
inline constexpr int code_count = 256;
inline constexpr int signed_zero = 127;       ///< the signed book's code of 0
inline constexpr int largest_negative = 127;  ///< it has a magnitude of 1, number 128, for positive numbers only

/// Numbers are found by the upper bits of their float32: the exponent and 7 bits of the fraction. A bin is so narrow
/// that at most one border is in it.
inline constexpr int bin_shift = 16;
inline constexpr std::uint32_t first_bin = std::bit_cast<std::uint32_t>(0x1p-23F) >> bin_shift;
inline constexpr std::uint32_t last_bin = std::bit_cast<std::uint32_t>(1.0F) >> bin_shift;
inline constexpr int bins = static_cast<int>(last_bin - first_bin + 1);

/// A book's magnitudes in [0, 1], ascending, and the borders between them: a number above border[i] is nearer to
/// magnitude i + 1 than to i. A number that is as near to both belongs to the one with the even code.
template <int count>
struct Magnitudes {
  float value[count];
  float border[count];       ///< the last is infinite
  std::uint8_t below[bins];  ///< how many borders are below a bin's numbers
};

constexpr float infinity = std::bit_cast<float>(std::uint32_t{0x7F800000});

/// Number `i` of torch.linspace(0.1, 1, count + 1), for the same bits as on processors that add products in one
/// rounding (AVX2 and later). All but that rounding is exact in double.
constexpr float edge(int i, int count) {
  constexpr float begin = 0.1F, end = 1.0F;
  const double step = (end - begin) / static_cast<float>(count);
  return static_cast<float>(i < (count + 1) / 2 ? begin + step * i : end - step * (count - i));
}

/// Zero, then for each power of ten from 10^-6 on twice as many numbers as for the one before: the middles of equal
/// parts of [0.1, 1], times that power. The last number is 1.
template <int count>
constexpr Magnitudes<count> magnitudes(int parts_of_first, bool even_are_even) {
  constexpr float powers[] = {1e-6F, 1e-5F, 1e-4F, 1e-3F, 1e-2F, 1e-1F, 1};
  Magnitudes<count> all{};
  int i = 1;
  for (const float power : powers) {
    for (int part = 0; part < parts_of_first; ++part) {
      const float middle = (edge(part, parts_of_first) + edge(part + 1, parts_of_first)) / 2;
      all.value[i++] = power * middle;
    }
    parts_of_first *= 2;
  }
  all.value[i] = 1;
  for (i = 0; i + 1 < count; ++i) {
    const float middle = (all.value[i] + all.value[i + 1]) * 0.5F;
    const bool lower_is_even = (i % 2 == 0) == even_are_even;
    all.border[i] = lower_is_even ? middle : std::bit_cast<float>(std::bit_cast<std::uint32_t>(middle) - 1);
  }
  all.border[i] = infinity;
  for (int bin = 0, borders = 0; bin < bins; ++bin) {
    const auto least = std::bit_cast<float>((first_bin + static_cast<std::uint32_t>(bin)) << bin_shift);
    while (all.border[borders] < least) ++borders;
    all.below[bin] = static_cast<std::uint8_t>(borders);
  }
  return all;
}

/// Does every bin have at most one border? No number below the first bin has one.
template <int count>
constexpr bool bins_are_narrow(const Magnitudes<count>& all) {
  for (int bin = 0; bin + 1 < bins; ++bin) {
    if (all.below[bin + 1] > all.below[bin] + 1) return false;
  }
  return all.below[0] == 0;
}

inline constexpr int signed_count = 129, unsigned_count = 256;

/// All of it. Signed code 127 + i is magnitude i, and 127 - i its negative.
struct alignas(16) Tables {
  Magnitudes<signed_count> with_sign;
  Magnitudes<unsigned_count> without;
  float signed_value[code_count];
};

constexpr Tables make_tables() {
  Tables tables{magnitudes<signed_count>(1, false), magnitudes<unsigned_count>(2, true), {}};
  for (int i = 0; i < signed_count; ++i) {
    tables.signed_value[signed_zero + i] = tables.with_sign.value[i];
    if (i > 0 && i <= largest_negative) tables.signed_value[signed_zero - i] = -tables.with_sign.value[i];
  }
  return tables;
}

inline constexpr Tables tables = make_tables();
static_assert(bins_are_narrow(tables.with_sign) && bins_are_narrow(tables.without));

ADAM8BIT_ANYWHERE std::uint32_t bits_of(float x) {
#ifdef __CUDA_ARCH__
  return __float_as_uint(x);
#else
  return std::bit_cast<std::uint32_t>(x);
#endif
}

/// The magnitude that is nearest to x >= 0. What is not a number gets the last.
template <int count>
ADAM8BIT_ANYWHERE int nearest(const Magnitudes<count>& all, float x) {
  const std::uint32_t key = bits_of(x) >> bin_shift;
  const std::uint32_t at_most = key < last_bin ? key : last_bin;
  const int below = all.below[at_most > first_bin ? at_most - first_bin : 0];
  return below + (x > all.border[below] ? 1 : 0);
}

/// The code of a number with the sign of `value` and the magnitude x. A negative number stays negative, however small.
ADAM8BIT_ANYWHERE int signed_code(const Tables& all, float value, float x) {
  const int magnitude = nearest(all.with_sign, x);
  if (!(value < 0)) return signed_zero + magnitude;
  const int most = magnitude < largest_negative ? magnitude : largest_negative;
  return signed_zero - (most > 1 ? most : 1);
}

ADAM8BIT_ANYWHERE int unsigned_code(const Tables& all, float x) { return nearest(all.without, x); }

}  // namespace adam8bit
