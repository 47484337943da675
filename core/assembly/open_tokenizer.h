#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/tokenizer/tokenizer.h>

#include <memory>
#include <optional>
#include <string>

#include "setup/plugins.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// What data.tokenizer means.
struct ChosenTokenizer {
  std::string name;  ///< "auto", "byte", or a path
  std::shared_ptr<const tokenizer::Tokenizer> object;
};

/// Opens it, once the model's options are known; nothing where there is a fault.
std::optional<ChosenTokenizer> open_tokenizer(const setup::Configuration& config, const setup::LoadedPlugins& plugins,
                                              Diagnostics& faults);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
