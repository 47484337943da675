#include "base/xxh64.h"

#include <array>
#include <bit>
#include <cstdio>
#include <cstring>

namespace capstan {
namespace {

constexpr std::uint64_t prime1 = 0x9E3779B185EBCA87ULL;
constexpr std::uint64_t prime2 = 0xC2B2AE3D27D4EB4FULL;
constexpr std::uint64_t prime3 = 0x165667B19E3779F9ULL;
constexpr std::uint64_t prime4 = 0x85EBCA77C2B2AE63ULL;
constexpr std::uint64_t prime5 = 0x27D4EB2F165667C5ULL;

static_assert(std::endian::native == std::endian::little, "lanes and safetensors are little-endian");

template <class Word>
std::uint64_t load(const std::byte* data) {
  Word word{};
  std::memcpy(&word, data, sizeof(word));
  return word;
}

std::uint64_t round(std::uint64_t sum, std::uint64_t lane) { return std::rotl(sum + lane * prime2, 31) * prime1; }

// 32-byte stripes; leaves `data` at the rest, shorter than a stripe.
std::uint64_t stripes(const std::byte*& data, const std::byte* end) {
  if (end - data < 32) return prime5;
  std::array<std::uint64_t, 4> sums{prime1 + prime2, prime2, 0, 0 - prime1};
  for (; end - data >= 32; data += 32) {
    for (std::size_t i = 0; i < 4; ++i) sums[i] = round(sums[i], load<std::uint64_t>(data + 8 * i));
  }
  std::uint64_t hash = std::rotl(sums[0], 1) + std::rotl(sums[1], 7) + std::rotl(sums[2], 12) + std::rotl(sums[3], 18);
  for (const auto sum : sums) hash = (hash ^ round(0, sum)) * prime1 + prime4;
  return hash;
}

}  // namespace

std::uint64_t xxh64(const std::byte* data, std::size_t size) {
  const std::byte* end = data + size;
  std::uint64_t hash = stripes(data, end) + size;
  for (; end - data >= 8; data += 8) {
    hash = std::rotl(hash ^ round(0, load<std::uint64_t>(data)), 27) * prime1 + prime4;
  }
  if (end - data >= 4) {
    hash = std::rotl(hash ^ load<std::uint32_t>(data) * prime1, 23) * prime2 + prime3;
    data += 4;
  }
  for (; data != end; ++data) hash = std::rotl(hash ^ load<std::uint8_t>(data) * prime5, 11) * prime1;
  hash = (hash ^ hash >> 33) * prime2;
  hash = (hash ^ hash >> 29) * prime3;
  return hash ^ hash >> 32;
}

std::string xxh64_text(const std::byte* data, std::size_t size) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(xxh64(data, size)));
  return text.data();
}

}  // namespace capstan
