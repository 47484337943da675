#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/plugin/host.h>

#include "session/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// The stages that `check` goes through too (session/job.cc reads them one after the other). Throws
/// ConfigurationRefused, on every rank the same faults at once: those of the lowest rank that found any. A session of
/// the job follows later. Collective.
session::Job prepare_together(const setup::JobRequest& request, plugin::Host& host, comm::Communicator& communicator);

}  // namespace train
CAPSTAN_END_NAMESPACE
