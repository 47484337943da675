#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace plugin {

/// Options with which a strategy makes a run need less memory: `capstan check --gpu` tries them where one does not fit.
/// An options struct offers its own in `static std::vector<plugin::Saving> savings()`.
struct Saving {
  /// Cheapest first: so they are tried and listed. What offloads is tried with what recomputes too.
  enum class By { recomputing, sharding, offloading };
  By by = By::sharding;
  std::string words;                 ///< "shard everything"
  std::vector<std::string> options;  ///< of the plugin's own table: "mode=full_shard"
};

}  // namespace plugin
CAPSTAN_END_NAMESPACE
