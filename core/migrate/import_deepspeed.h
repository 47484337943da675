#pragma once
#include <capstan/base/error.h>
#include <capstan/base/export.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace migrate {

/// A DeepSpeed configuration, translated.
struct ImportedConfig {
  std::string toml;                ///< [train], [optimizer], [strategy.zero]; comments name what was left out
  std::vector<std::string> notes;  ///< "zero_optimization.reduce_scatter is not taken over: always so"
};

/// Translates a DeepSpeed configuration. `file` is the name that messages use. Throws Error with every fault: text
/// that is not JSON (with its line), unknown and repeated keys, values of the wrong type, unsupported features.
ImportedConfig import_deepspeed(const std::string& file, const std::string& json);

}  // namespace migrate
CAPSTAN_END_NAMESPACE
