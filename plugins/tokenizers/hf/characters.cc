#include "characters.h"

#include <capstan/base/error.h>

#include "character_properties.h"

namespace hf {

using namespace capstan;

CharacterClasses::CharacterClasses() : classes_(0x110000, 0) {
  const auto mark = [this](std::span<const CharacterRange> ranges, std::uint8_t bit) {
    for (const auto& range : ranges) {
      for (auto c = range.first; c <= range.last; ++c) classes_[c] |= bit;
    }
  };
  const auto letters = characters_with("L");
  const auto numbers = characters_with("N");
  CAPSTAN_ASSERT(letters && numbers);
  mark(*letters, letter);
  mark(*numbers, number);
  mark(spaces(), space);
  mark(word_characters(), word);
}

}  // namespace hf
