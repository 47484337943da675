#pragma once

#include <capstan/tokenizer/tokenizer.h>

#include <string>
#include <string_view>
#include <vector>

#include "text_pattern.h"

namespace hf {

/// For each byte of a text the part of the given one that it stands for: whole characters.
using Origins = std::vector<capstan::tokenizer::TextRange>;

/// Those of repair_utf8(given).
Origins origins_of_repaired(std::string_view given);

/// A text that was made of another one, with its origins where they are wanted.
struct Traced {
  std::string text;
  Origins from;

  /// Puts a text before it, which stands for what its first byte stands for.
  void prepend(std::string_view content, bool traces);
};

/// `text` with each match replaced, as TextPattern::replaced. `from`: the origins of its bytes, or null. What is put in
/// a match's place stands for what the match's last byte stands for.
Traced traced_replaced(const TextPattern& pattern, std::string_view text, std::string_view content,
                       const capstan::tokenizer::TextRange* from);

}  // namespace hf
