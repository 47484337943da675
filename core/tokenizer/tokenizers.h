#pragma once
#include <capstan/base/export.h>
#include <capstan/tokenizer/tokenizer.h>

#include <memory>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace tokenizer {

/// `name` is "byte", or a tokenizer.json, or a folder that holds one; tokenizer_config.json, generation_config.json
/// and config.json next to it say what ends an answer. "auto" is the tokenizer.json of `model_folder`, or "byte" if
/// that is empty. Throws Error for a name or a file that does not exist, and at the file for one that Capstan cannot
/// read.
std::shared_ptr<const Tokenizer> make_tokenizer(const std::string& name, const std::string& model_folder = {});

}  // namespace tokenizer
CAPSTAN_END_NAMESPACE
