#include "base/xxh64.h"

#define XXH_INLINE_ALL  // its code becomes part of this file
#include <xxhash.h>

#include <array>
#include <cstdio>

namespace capstan {

std::uint64_t xxh64(const std::byte* data, std::size_t size) { return XXH64(data, size, 0); }

std::string xxh64_text(const std::byte* data, std::size_t size) {
  std::array<char, 17> text{};
  std::snprintf(text.data(), text.size(), "%016llx", static_cast<unsigned long long>(xxh64(data, size)));
  return text.data();
}

}  // namespace capstan
