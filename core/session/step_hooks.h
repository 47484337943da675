#pragma once
#include <capstan/base/export.h>

#include "session/session.h"
#include "shard/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace session {

/// Makes the strategies' step hooks, and gives the engine's options the functions for the sums of gradients that they
/// claim. Throws Error where a strategy claims one, or what evaluation sees, and brings nothing for it.
void install_step_hooks(const assembly::Strategies& strategies, Session& session, shard::EngineOptions& options);

}  // namespace session
CAPSTAN_END_NAMESPACE
