#pragma once

#include <filesystem>
#include <functional>
#include <string>

#include "bpe_tokenizer.h"
#include "tokenizer_spec.h"

namespace hf {

/// Parses a tokenizer.json's `text`. Throws Error at `file` naming everything in it that Capstan does not support, so
/// that an accepted file gives the same ids as the `tokenizers` package.
TokenizerSpec parse_tokenizer(const std::string& text, const std::string& file);

/// End and padding ids of a model folder. What ends an answer in training is tokenizer_config.json's eos_token, else
/// the first eos_token_id of generation_config.json, else config.json's; generation ends at each of them. `id_of` gives
/// a token's id, or -1. Throws Error at the file for an id or a token that the tokenizer doesn't have.
SpecialIds read_special_ids(const std::filesystem::path& folder,
                            const std::function<std::int64_t(const std::string&)>& id_of, std::int64_t vocab_size);

}  // namespace hf
