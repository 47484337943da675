#pragma once

#include <string>
#include <vector>

#include "tokenizer_spec.h"

namespace hf {

/// The text of tokens: each step transforms the list of the previous one, and the last list is joined.
///   byte_level     all tokens joined, their characters turned into bytes; ill-formed UTF-8 becomes U+FFFD
///   replace        in each token
///   byte_fallback  a run of "<0xNN>" becomes the characters it spells, or one U+FFFD a byte when it spells none
///   fuse           all tokens joined
///   strip          removes up to a number of a character at either end of each token
///   metaspace      the character becomes a space; in the first token nothing, if the encoder put it there
std::string decode_tokens(const std::vector<DecodeStep>& steps, std::vector<std::string> tokens);
}  // namespace hf
