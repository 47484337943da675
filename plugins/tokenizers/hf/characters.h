#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace hf {

struct Character {
  char32_t value = 0;
  std::size_t size = 0;  ///< bytes
};

/// The character of well-formed UTF-8 that begins at `at`.
inline Character character_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) { return static_cast<char32_t>(static_cast<unsigned char>(text[at + i])); };
  const auto lead = byte(0);
  if (lead < 0x80) return {lead, 1};
  if (lead < 0xE0) return {(lead & 0x1FU) << 6U | (byte(1) & 0x3FU), 2};
  if (lead < 0xF0) return {(lead & 0x0FU) << 12U | (byte(1) & 0x3FU) << 6U | (byte(2) & 0x3FU), 3};
  return {(lead & 0x07U) << 18U | (byte(1) & 0x3FU) << 12U | (byte(2) & 0x3FU) << 6U | (byte(3) & 0x3FU), 4};
}

/// The character that ends before `end` > 0.
inline Character character_before(std::string_view text, std::size_t end) {
  auto at = end - 1;
  while (at > 0 && (static_cast<unsigned char>(text[at]) & 0xC0U) == 0x80U) --at;
  return character_at(text, at);
}

/// The end of the characters from `at` on for which `belongs` holds.
template <class Belongs>
std::size_t run_end(std::string_view text, std::size_t at, const Belongs& belongs) {
  while (at < text.size()) {
    const auto character = character_at(text, at);
    if (!belongs(character.value)) break;
    at += character.size;
  }
  return at;
}

/// Is each byte a character of its own?
inline bool is_ascii(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

/// Character classes of tokenizer.json files (the `tokenizers` package's own Unicode tables): one byte for each
/// character, filled from ranges, so that a look-up is one load.
class CharacterClasses {
 public:
  CharacterClasses();
  bool is_letter(char32_t c) const { return (classes_[c] & letter) != 0; }
  bool is_number(char32_t c) const { return (classes_[c] & number) != 0; }
  bool is_space(char32_t c) const { return (classes_[c] & space) != 0; }
  bool is_word(char32_t c) const { return (classes_[c] & word) != 0; }
  /// None of letter, number and space.
  bool is_other(char32_t c) const { return (classes_[c] & (letter | number | space)) == 0; }

 private:
  enum : std::uint8_t { letter = 1, number = 2, space = 4, word = 8 };
  std::vector<std::uint8_t> classes_;
};

}  // namespace hf
