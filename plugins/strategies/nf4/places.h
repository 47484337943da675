#pragma once
#include <cstdint>

namespace nf4 {

inline constexpr std::int64_t block = 64;   ///< elements that share a magnitude
inline constexpr std::int64_t group = 256;  ///< magnitudes that share one of their own
inline constexpr std::int64_t shared = block * group;
inline constexpr std::int64_t map_size = 256;

/// Where a rank's elements are in a matrix, or in some rows of it, in row-major order: `run` neighbours from `first`
/// on, as many again `stride` after those, …. All are multiples of 64.
struct InWhole {
  std::int64_t elements;  ///< how many the matrix has, or the rows
  std::int64_t first, run, stride;
};

/// The place in the whole of element `i`.
constexpr std::int64_t place_in(const InWhole& whole, std::int64_t i) {
  return whole.first + i / whole.run * whole.stride + i % whole.run;
}

/// Where the parts of an extent's bytes begin, each at a multiple of 16; the map is first. See codec.h.
struct Places {
  std::int64_t codes, magnitudes, nested, offsets, end;
};

#ifdef __CUDACC__
#define NF4_ANYWHERE __host__ __device__
#else
#define NF4_ANYWHERE
#endif
NF4_ANYWHERE constexpr std::int64_t groups_of(std::int64_t elements) { return (elements + shared - 1) / shared; }

/// Places for matrices of `whole` elements, where a rank has `elements` of each.
constexpr Places places_of(std::int64_t matrices, std::int64_t elements, std::int64_t whole) {
  constexpr std::int64_t number = sizeof(float);
  const auto after = [](std::int64_t begin, std::int64_t bytes) { return begin + (bytes + 15) / 16 * 16; };
  Places at{};
  at.codes = map_size * number;
  at.magnitudes = after(at.codes, matrices * elements / 2);
  at.nested = after(at.magnitudes, matrices * elements / block);
  at.offsets = after(at.nested, matrices * groups_of(whole) * number);
  at.end = after(at.offsets, matrices * number);
  return at;
}

}  // namespace nf4
