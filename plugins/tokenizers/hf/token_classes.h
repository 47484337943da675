#pragma once
#include <string>
#include <utility>
#include <vector>

#include "tokenizer_spec.h"

namespace hf {

/// The special tokens, by their keys, that a tokenizer_class of transformers has where no file names them. Empty for a
/// class that has none, and for one that is not known.
std::vector<std::pair<std::string, std::string>> default_tokens(const std::string& tokenizer_class);

/// Does transformers build this class's steps by add_prefix_space, whatever tokenizer.json says?
bool builds_prefix_space(const std::string& tokenizer_class);

/// Do the steps put a space before a text?
bool has_prefix_space(const TokenizerSpec& spec);

}  // namespace hf
