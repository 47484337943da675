#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace plugin {

/// A strategy's options that reduce a run's memory: `capstan check --gpu` tries them if the run does not fit. An
/// options struct lists its own in `static std::vector<plugin::Saving> savings()`.
struct Saving {
  /// Tried and listed in this order, cheapest first. Offload is also tried together with recompute.
  enum class By { recomputing, sharding, offloading };
  By by = By::sharding;
  std::string words;                 ///< "shard everything"
  std::vector<std::string> options;  ///< of the plugin's own table: "mode=full_shard"
};

}  // namespace plugin
CAPSTAN_END_NAMESPACE
