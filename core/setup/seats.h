#pragma once
#include "setup/session.h"
#include "shard/options.h"

namespace capstan::setup {

/// Makes the strategies' step hooks and gives the claimed seats to their owners: gradient reductions to the engine's
/// options, the optimizer's rule to the session. Throws Error where a strategy claims a seat and brings nothing for
/// it.
void take_seats(const Job& job, Session& session, shard::EngineOptions& options);

}  // namespace capstan::setup
