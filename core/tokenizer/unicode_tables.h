#pragma once
#include <span>

namespace capstan::tokenizer {

struct CharacterRange {
  char32_t first;
  char32_t last;
};

// The character classes of the patterns of tokenizer.json files, in ascending ranges.
std::span<const CharacterRange> letters();          // \p{L}
std::span<const CharacterRange> numbers();          // \p{N}
std::span<const CharacterRange> spaces();           // \s
std::span<const CharacterRange> word_characters();  // the \w that single_word uses

}  // namespace capstan::tokenizer
