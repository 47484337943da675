#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

namespace hf {

struct CharacterRange {
  char32_t first;
  char32_t last;
};

/// Characters first … last, each with the lower case `step` further on.
struct LowerCases {
  char32_t first;
  char32_t last;
  std::int32_t step;
};

// Made by tools/make-tokenizer-tables: what the `tokenizers` package takes characters for, in ascending ranges. Its
// parts have Unicode versions of their own.
std::span<const CharacterRange> spaces();                  // \s
std::span<const CharacterRange> more_word_characters();    // in patterns' \w besides \p{L}, \p{M}, \p{Nd} and \p{Pc}
std::span<const CharacterRange> han();                     // \p{Han}
std::span<const CharacterRange> unlike_word_characters();  // in one of patterns' \w and single_word's
std::span<const CharacterRange> unlike_numbers();          // in one of \p{N} and digits()
std::span<const CharacterRange> unlike_punctuation();      // in one of punctuation() and \p{P} with ASCII's symbols
std::span<const CharacterRange> unlike_marks();            // in one of \p{Mn} and marks()
std::span<const CharacterRange> newer_characters();        // what NFC, NFD, NFKC and NFKD do not change, being older
std::span<const LowerCases> lower_cases();                 // where Lowercase knows more than utf8proc

/// Runs of characters of one general category: the first one times 32, plus the index of its name in category_names.
std::span<const std::uint32_t> categories();

using CharacterRanges = std::vector<CharacterRange>;

/// The characters that \p{name} means in a pattern, in ascending ranges: a general category ("Lu"), a group of them
/// ("L", "P"), or "Han". Case, '_', '-' and spaces in the name do not count. Nothing: the name is none of these.
std::optional<CharacterRanges> characters_with(std::string_view name);
/// The characters of \w in a pattern.
CharacterRanges pattern_word_characters();
CharacterRanges word_characters();  ///< the \w that single_word uses
CharacterRanges digits();           ///< what Digits cuts out
CharacterRanges punctuation();      ///< what Punctuation cuts out
CharacterRanges marks();            ///< what StripAccents removes
/// All other characters. Surrogates, which no text has, are in neither.
CharacterRanges all_but(const CharacterRanges& ranges);

/// Is the character in one of these ascending ranges?
bool contains(std::span<const CharacterRange> ranges, char32_t c);

}  // namespace hf
