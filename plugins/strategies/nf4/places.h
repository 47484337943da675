#pragma once
#include <cstdint>

namespace nf4 {

inline constexpr std::int64_t block = 64;   ///< elements that share a magnitude
inline constexpr std::int64_t group = 256;  ///< magnitudes that share one of their own
inline constexpr std::int64_t shared = block * group;
inline constexpr std::int64_t map_size = 256;

/// Where the parts of an extent's bytes begin, each at a multiple of 16; the map is first. See codec.h.
struct Places {
  std::int64_t codes, magnitudes, nested, offsets, end;
};

constexpr std::int64_t groups_of(std::int64_t elements) { return (elements + shared - 1) / shared; }

constexpr Places places_of(std::int64_t matrices, std::int64_t elements) {
  constexpr std::int64_t number = sizeof(float);
  const auto after = [](std::int64_t begin, std::int64_t bytes) { return begin + (bytes + 15) / 16 * 16; };
  Places at{};
  at.codes = map_size * number;
  at.magnitudes = after(at.codes, matrices * elements / 2);
  at.nested = after(at.magnitudes, matrices * elements / block);
  at.offsets = after(at.nested, matrices * groups_of(elements) * number);
  at.end = after(at.offsets, matrices * number);
  return at;
}

}  // namespace nf4
