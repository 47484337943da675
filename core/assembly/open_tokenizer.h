#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/tokenizer/tokenizer.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "assembly/plugins.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// What [tokenizer] or data.tokenizer means.
struct ChosenTokenizer {
  std::string name;  ///< "auto", "byte", or a path; "auto" if it is a plugin's
  std::shared_ptr<const tokenizer::Tokenizer> object;
  /// Of a plugin alone: the files that it was read from.
  std::optional<std::vector<std::filesystem::path>> files = {};
};

/// Opens it, once the model's options are known; nothing where there is a fault.
std::optional<ChosenTokenizer> open_tokenizer(const setup::Configuration& config, const LoadedPlugins& plugins,
                                              Diagnostics& faults);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
