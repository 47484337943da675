#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <optional>
#include <string>

#include "launch/arguments.h"
#include "launch/launch.h"
#include "session/gpu_fit.h"
#include "session/job.h"

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

/// `capstan check`: prints the resolved options and returns success, or throws Error with every fault. A run that does
/// not fit into the GPU that was asked about is a bad configuration.
int check_command(const launch::CheckArguments& arguments, const launch::Environment& env);

/// What a rank would need with a change, by preparing the job again with the same global batch (where the number of
/// ranks stays); nothing where it cannot be made.
std::optional<plan::Peak> peak_with(setup::JobRequest request, const plan::Change& change, std::int64_t global_batch,
                                    plugin::Host& host);

/// What is tried where this job does not fit. Both must outlive it.
plan::Trials trials_of(const session::Job& job, plugin::Host& host);

/// What stands against a run's start, with the tables of `check`: it does not fit into its smallest GPU. Empty: it
/// fits, or nothing is known of one or the other.
std::string too_large_text(const session::Job& job, plugin::Host& host);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
