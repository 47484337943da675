#pragma once
#include <capstan/config/file_keys.h>

#include <string>
#include <string_view>
#include <vector>

namespace hf {

// What is done with each key of the files that the `tokenizers` and transformers packages write.

/// tokenizer.json's own keys, and with a dot those of its "model". The steps' keys are read where the steps are.
const capstan::config::FileKeys& tokenizer_keys();
const capstan::config::FileKeys& tokenizer_config_keys();
const capstan::config::FileKeys& special_tokens_map_keys();
/// Its keys are tokens: this is for people.
const capstan::config::FileKeys& added_tokens_keys();

/// The names of a table's keys that begin with `prefix` and have no further dot, without it.
std::vector<std::string> names_in(const capstan::config::FileKeys& table, std::string_view prefix = {});

}  // namespace hf
