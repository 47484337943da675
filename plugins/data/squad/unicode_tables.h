#pragma once
#include <array>
#include <cstdint>

namespace squad {

struct CharacterRange {
  char32_t first;
  char32_t last;
};

/// Every stride-th character from first to last has the lower case character + delta.
struct LowerRun {
  char32_t first;
  char32_t last;
  std::uint32_t stride;
  std::int32_t delta;
};

extern const std::array<CharacterRange, 733> word_characters;            ///< str.isalnum
extern const std::array<CharacterRange, 10> space_characters;            ///< str.isspace
extern const std::array<CharacterRange, 149> cased_characters;           ///< for the final sigma
extern const std::array<CharacterRange, 427> case_ignorable_characters;  ///< for the final sigma
extern const std::array<LowerRun, 181> lower_runs;                       ///< str.lower, except U+0130

}  // namespace squad
