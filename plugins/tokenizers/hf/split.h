#pragma once

#include <cstddef>
#include <string_view>

#include "characters.h"
#include "tokenizer_spec.h"

namespace hf {

/// Bytes of the first piece that a pattern cuts from non-empty well-formed UTF-8: a match, or the text before the next
/// match. The patterns never look back, so a text is cut by calling this on the rest, again and again.
///
///   gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///   llama3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+
///           |\s+(?!\S)|\s+
///   qwen2   llama3's with \p{N} instead of \p{N}{1,3}
///   bloom    ?[^(\s|[.,!?…。，、।۔،])]+   where the brackets inside are a class too: ( ) and | are left out with the
///   rest
std::size_t first_piece(SplitPattern pattern, const CharacterClasses& classes, std::string_view text);

}  // namespace hf
