#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>
#include <capstan/plugin/host.h>
#include <capstan/tokenizer/open.h>

#include <optional>

#include "assembly/plugins.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// Opens what [tokenizer] or data.tokenizer means, once the model's options are known; nothing where there is a fault.
std::optional<tokenizer::Opened> open_tokenizer(const setup::Configuration& config, const LoadedPlugins& plugins,
                                                plugin::Host& host, Diagnostics& faults);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
