#include "byte_level.h"

#include "characters.h"

namespace hf {

namespace {

bool stands_for_itself(char32_t c) { return (c >= 0x21 && c <= 0x7E) || (c >= 0xA1 && c <= 0xFF && c != 0xAD); }

// The bytes that are not mapped to themselves, in order: 0 … 0x20, 0x7F … 0xA0, 0xAD.
char32_t other_byte(char32_t n) { return n <= 0x20 ? n : n <= 0x42 ? n - 0x21 + 0x7F : 0xAD; }
char32_t place_of(char32_t byte) { return byte <= 0x20 ? byte : byte <= 0xA0 ? byte - 0x7F + 0x21 : 0x43; }

}  // namespace

std::string byte_level_text(std::string_view bytes) {
  std::string out;
  for (const char byte : bytes) {
    const auto value = static_cast<char32_t>(static_cast<unsigned char>(byte));
    const auto c = stands_for_itself(value) ? value : 0x100 + place_of(value);
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else {
      out += static_cast<char>(0xC0U | c >> 6U);
      out += static_cast<char>(0x80U | (c & 0x3FU));
    }
  }
  return out;
}

std::optional<std::string> byte_level_bytes(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const auto character = character_at(text, at);
    at += character.size;
    const auto c = character.value;
    if (stands_for_itself(c)) {
      out += static_cast<char>(c);
    } else if (c >= 0x100 && c <= 0x143) {
      out += static_cast<char>(other_byte(c - 0x100));
    } else {
      return {};
    }
  }
  return out;
}

}  // namespace hf
