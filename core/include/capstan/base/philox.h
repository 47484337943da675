#pragma once
#include <capstan/base/export.h>
#include <capstan/base/host_device.h>

#include <cstdint>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE

/// A Philox counter, and what Philox makes of it: four 32-bit words, each uniform.
struct PhiloxBlock {
  std::uint32_t word[4];
};

/// A Philox key: which stream of random words. Two keys give independent streams.
struct PhiloxKey {
  std::uint32_t word[2];
};

/// What a stream is drawn for. Part of the key, so that a parameter and a dropout site of one name share nothing.
enum class RandomPurpose : std::uint64_t { initialisation = 1, dropout = 2, sampling = 3 };

/// Philox 4x32-10 of Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (SC 2011): a
/// keyed bijection of 128-bit counters in ten rounds. No state: the same (counter, key) is always the same block.
CAPSTAN_HOST_DEVICE constexpr PhiloxBlock philox(PhiloxBlock counter, PhiloxKey key) {
  constexpr std::uint32_t multiplier0 = 0xD2511F53u, multiplier1 = 0xCD9E8D57u;
  constexpr std::uint32_t weyl0 = 0x9E3779B9u, weyl1 = 0xBB67AE85u;  // the golden ratio and sqrt(3) - 1
  for (int round = 0; round < 10; ++round) {
    const std::uint64_t product0 = std::uint64_t{multiplier0} * counter.word[0];
    const std::uint64_t product1 = std::uint64_t{multiplier1} * counter.word[2];
    counter = {{static_cast<std::uint32_t>(product1 >> 32) ^ counter.word[1] ^ key.word[0],
                static_cast<std::uint32_t>(product1),
                static_cast<std::uint32_t>(product0 >> 32) ^ counter.word[3] ^ key.word[1],
                static_cast<std::uint32_t>(product0)}};
    key = {{key.word[0] + weyl0, key.word[1] + weyl1}};
  }
  return counter;
}

/// The 64-bit FNV-1a hash of a name's bytes. Stable: it is part of what a seed means, on every machine and version.
constexpr std::uint64_t stable_hash(std::string_view name) {
  std::uint64_t hash = 0xCBF29CE484222325u;
  for (const char byte : name) {
    hash = (hash ^ static_cast<unsigned char>(byte)) * 0x100000001B3u;
  }
  return hash;
}

/// SplitMix64's output function (Steele, Lea and Flood, OOPSLA 2014): a bijection that spreads every bit over all.
constexpr std::uint64_t mix_bits(std::uint64_t bits) {
  bits = (bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9u;
  bits = (bits ^ (bits >> 27)) * 0x94D049BB133111EBu;
  return bits ^ (bits >> 31);
}

/// The key of the stream (seed, purpose, name): mix(mix(seed + purpose * golden ratio) ^ name_hash), the low word
/// first. For one purpose and name, different seeds have different keys.
constexpr PhiloxKey make_key(std::uint64_t seed, RandomPurpose purpose, std::uint64_t name_hash) {
  const std::uint64_t golden = 0x9E3779B97F4A7C15u;
  const std::uint64_t key = mix_bits(mix_bits(seed + static_cast<std::uint64_t>(purpose) * golden) ^ name_hash);
  return {{static_cast<std::uint32_t>(key), static_cast<std::uint32_t>(key >> 32)}};
}

/// The key of the stream (seed, purpose, stable_hash(name)).
constexpr PhiloxKey make_key(std::uint64_t seed, RandomPurpose purpose, std::string_view name) {
  return make_key(seed, purpose, stable_hash(name));
}

CAPSTAN_END_NAMESPACE
