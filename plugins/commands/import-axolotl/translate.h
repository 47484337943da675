#pragma once
#include <string>
#include <vector>

#include "import.h"

namespace import_axolotl {

/// An axolotl configuration, translated.
struct Translated {
  std::string toml;                  ///< a whole configuration; comments name what was left out
  std::vector<std::string> choices;  ///< "FILE:12: lora_target_modules: choose strategy.lora.targets: …"
  std::vector<std::string> notes;    ///< "FILE:12: tf32 is not taken over: …"
};

/// Throws capstan::Error with every fault: values of the wrong type, and what would change what is learned and has no
/// counterpart.
Translated translate(File file, const Surroundings& around);

}  // namespace import_axolotl
