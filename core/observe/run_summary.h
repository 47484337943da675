#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/monitor/monitor.h>

CAPSTAN_BEGIN_NAMESPACE
namespace observe {

/// What all ranks' monitors say of the run: each number's mean over the ranks that have it, each text of the first rank
/// that has it, in the order of the first rank that names it. Collective over the world.
monitor::Summary exchange_summary(const monitor::Summary& mine, comm::Communicator& communicator);

}  // namespace observe
CAPSTAN_END_NAMESPACE
