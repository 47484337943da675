#pragma once
#include <cstdint>
#include <string>

/// The eight bytes of a safetensors header's length, then the header.
inline std::string with_length(const std::string& header, std::uint64_t length) {
  std::string out;
  for (int i = 0; i < 8; ++i) out.push_back(static_cast<char>(length >> (8 * i) & 0xFF));
  return out + header;
}

inline std::string with_length(const std::string& header) { return with_length(header, header.size()); }
