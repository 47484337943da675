#pragma once
#include <filesystem>

#include "added_ids.h"
#include "bpe_tokenizer.h"
#include "folder_tokens.h"

namespace hf {

/// End and padding ids of a model folder. What ends an answer in training is the eos_token of the tokenizer's files,
/// else the first eos_token_id of generation_config.json, else config.json's; generation ends at each of them. Throws
/// Error at the file for an id that is not among the tokenizer's.
SpecialIds read_special_ids(const std::filesystem::path& folder, const FolderTokens& tokens, const TokenIds& known);

}  // namespace hf
