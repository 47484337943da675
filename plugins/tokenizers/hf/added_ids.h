#pragma once
#include <cstdint>
#include <string>
#include <unordered_map>

#include "folder_tokens.h"
#include "tokenizer_spec.h"

namespace hf {

/// A tokenizer's ids by their tokens.
using TokenIds = std::unordered_map<std::string, std::int64_t>;

/// Adds the tokens that tokenizer.json lacks, and the flags of those that it has otherwise, as transformers adds them:
/// a token of the vocabulary keeps its id, others get the next ones. Returns the ids of all tokens. Throws Error where
/// a file gives another id, or names an end or padding token that nothing has.
TokenIds add_tokens(TokenizerSpec& spec, const FolderTokens& tokens);

}  // namespace hf
