#pragma once
#include <capstan/base/export.h>

#include <capstan/plugin/host.h>
#include "ranks/start.h"
#include "session/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace commands {

/// The stages that `check` goes through too (session/job.cc reads them one after the other). Throws
/// ConfigurationRefused, on every rank the same faults at once: those of the lowest rank that found any. A session of
/// the job follows later.
session::Job prepare_together(const launch::RunArguments& arguments, const launch::Environment& env,
                              const ranks::Rank& rank, plugin::Host& host);

}  // namespace commands
CAPSTAN_END_NAMESPACE
