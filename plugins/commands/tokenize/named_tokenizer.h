#pragma once
#include <capstan/command.h>
#include <capstan/tokenizer/open.h>

#include <string>

namespace tokenize {

/// The tokenizer of a model's folder or hub id, a tokenizer.json, or a configuration (a name that ends in .toml), whose
/// data.tokenizer and model.path say it. Throws Error for a name that is none.
capstan::tokenizer::Opened named_tokenizer(const std::string& name, const capstan::command::Call& call);

}  // namespace tokenize
