#include "tokenizer/byte_tokenizer.h"

#include <capstan/tokenizer/utf8.h>

namespace capstan::tokenizer {

std::vector<std::int64_t> ByteTokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> ids;
  ids.reserve(text.size());
  for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
  return ids;
}

Encoded ByteTokenizer::encode_with_ranges(std::string_view text) const {
  Encoded encoded;
  encoded.ids = encode(text);
  for (std::size_t at = 0; at < text.size();) {
    const auto size = first_character(text.substr(at));
    encoded.ranges.insert(encoded.ranges.end(), size, {at, at + size});
    at += size;
  }
  return encoded;
}

std::string ByteTokenizer::decode(const std::vector<std::int64_t>& ids) const {
  std::string bytes;
  for (const auto id : ids) {
    if (id == end_id() || id == pad_id()) continue;
    // 0xFF never occurs in UTF-8, so an unknown id is repaired to U+FFFD with the rest.
    bytes += id >= 0 && id < 256 ? static_cast<char>(id) : '\xFF';
  }
  return repair_utf8(bytes);
}

}  // namespace capstan::tokenizer
