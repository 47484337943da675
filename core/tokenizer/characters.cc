#include "tokenizer/characters.h"

#include "tokenizer/unicode_tables.h"

namespace capstan::tokenizer {

CharacterClasses::CharacterClasses() : classes_(0x110000, 0) {
  const auto mark = [this](std::span<const CharacterRange> ranges, std::uint8_t bit) {
    for (const auto& range : ranges) {
      for (auto c = range.first; c <= range.last; ++c) classes_[c] |= bit;
    }
  };
  mark(letters(), letter);
  mark(numbers(), number);
  mark(spaces(), space);
  mark(word_characters(), word);
}

}  // namespace capstan::tokenizer
