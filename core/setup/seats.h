#pragma once
#include <capstan/base/export.h>

#include <memory>

#include "setup/session.h"
#include "shard/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace setup {

/// The rule that parameters are updated by: that of the strategy that claims it, with the plugin's name around its
/// errors, or else AdamW. Prediction and session ask the same one. Throws Error where a strategy claims it and brings
/// none.
std::unique_ptr<strategy::OptimizerRule> optimizer_rule(const Strategies& strategies, const OptimizerOptions& options);

/// Makes the strategies' step hooks and gives gradient reductions that are claimed to the engine's options. Throws
/// Error where a strategy claims one and brings nothing for it.
void take_seats(const Strategies& strategies, Session& session, shard::EngineOptions& options);

}  // namespace setup
CAPSTAN_END_NAMESPACE
