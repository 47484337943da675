#pragma once
// Runs of the families whose ranks share tokens.
#include <capstan/testing.h>

#include <map>
#include <string>
#include <vector>

#include "support/families.h"

namespace capstan::testing {

inline constexpr std::int64_t context_steps = 3;
/// Sums in float64 in another order, amplified by AdamW: what the project promises.
inline constexpr double context_tolerance = 1e-10;

inline std::string context_on(int size, const std::string& method = "auto") {
  return "[strategy.context_parallel]\nsize = " + std::to_string(size) + "\nmethod = \"" + method + "\"\n";
}

inline Setting context_setting(const std::string& config, int world) {
  return {.world = world, .config = config, .overrides = {same_micro_steps}, .steps = context_steps};
}

/// What one rank learns of a configuration, once a program.
inline const TrainResult& alone(const std::string& config) {
  static std::map<std::string, TrainResult> runs;
  if (!runs.contains(config)) runs[config] = train(context_setting(config, 1));
  return runs.at(config);
}

}  // namespace capstan::testing
