#pragma once
#include <capstan/base/export.h>

#include <cstddef>
#include <string_view>

#include "tokenizer/characters.h"
#include "tokenizer/tokenizer_spec.h"

CAPSTAN_BEGIN_NAMESPACE
namespace tokenizer {

/// Bytes of the first piece that a pattern cuts from well-formed UTF-8 that is not empty: a match, or what lies before
/// the next one. The patterns look back nowhere, so a text is cut by cutting what is left, again and again.
///
///   gpt2    's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
///   llama3  (?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+
///           |\s+(?!\S)|\s+
///   bloom    ?[^(\s|[.,!?…。，、।۔،])]+   where the brackets inside are a class too: ( ) and | are left out with the
///   rest
std::size_t first_piece(SplitPattern pattern, const CharacterClasses& classes, std::string_view text);

}  // namespace tokenizer
CAPSTAN_END_NAMESPACE
