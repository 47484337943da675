#pragma once
#include <capstan/base/export.h>

#include <string>
#include <string_view>
#include <vector>

#include "tokenizer/tokenizer_spec.h"

CAPSTAN_BEGIN_NAMESPACE
namespace tokenizer {

/// The text of tokens: each step transforms the list of the previous one, and the last list is joined.
///   byte_level     all tokens joined, their characters turned into bytes; ill-formed UTF-8 becomes U+FFFD
///   replace        in each token
///   byte_fallback  a run of "<0xNN>" becomes the characters it spells, or one U+FFFD a byte when it spells none
///   fuse           all tokens joined
///   strip          up to so many of a character at either end of each token
std::string decode_tokens(const std::vector<DecodeStep>& steps, std::vector<std::string> tokens);

/// Each occurrence of `pattern`, which is not empty, replaced; from left to right, none overlapping.
std::string replace_all(std::string_view text, std::string_view pattern, std::string_view content);

}  // namespace tokenizer
CAPSTAN_END_NAMESPACE
