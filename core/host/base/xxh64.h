#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <cstdint>
#include <string>

CAPSTAN_BEGIN_NAMESPACE

/// XXH64 with seed 0 of these bytes (what `xxhsum` prints for a file of them): finds damage, not malice.
/// Algorithm: https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md
std::uint64_t xxh64(const std::byte* data, std::size_t size);
/// As 16 hexadecimal digits.
std::string xxh64_text(const std::byte* data, std::size_t size);

CAPSTAN_END_NAMESPACE
