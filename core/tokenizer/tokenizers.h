#pragma once
#include <capstan/base/export.h>
#include <capstan/tokenizer/tokenizer.h>

#include <memory>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace tokenizer {

/// "byte", or a tokenizer.json, or a folder that holds one; beside it are looked for tokenizer_config.json,
/// generation_config.json and config.json, which say what ends an answer. "auto" is the tokenizer.json of
/// `model_folder`, and "byte" where that is empty. Throws Error for a name or a file that does not exist, and at the
/// file for one that Capstan cannot read.
std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& name, const std::string& model_folder = {});

}  // namespace tokenizer
CAPSTAN_END_NAMESPACE
