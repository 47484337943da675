#pragma once
#include <string>
#include <vector>

namespace import_deepspeed {

/// A DeepSpeed configuration, translated.
struct Translated {
  std::string toml;                ///< [train], [optimizer], [strategy.zero]; comments name what was left out
  std::vector<std::string> notes;  ///< "zero_optimization.reduce_scatter is not taken over: always so"
};

/// Translates a DeepSpeed configuration. `file` is the name that messages use. Throws capstan::Error with every fault:
/// text that is not JSON (with its line), unknown and repeated keys, values of the wrong type, unsupported features.
Translated translate(const std::string& file, const std::string& json);

}  // namespace import_deepspeed
