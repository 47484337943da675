#pragma once
#include <capstan/comm/communicator.h>

#include <functional>
#include <string>

#include "inference/stop.h"
#include "session/job.h"

namespace capstan::train {

/// A line for people that replaces the one before it, until the last of its kind.
using ShowProgress = std::function<void(const std::string& line, bool is_last)>;

/// The job's samples, read from the token caches that it asks for. Rank 0 of each node writes them, or verifies those
/// that are there, and the others hear from it every few seconds, so that nobody waits in a collective for as long as
/// it takes; `show` is called on rank 0. Throws inference::Stopped, or ConfigurationRefused, on all ranks at once.
assembly::Samples from_caches(const session::Job& job, const inference::Stop& stop, comm::Communicator& communicator,
                              const ShowProgress& show);

}  // namespace capstan::train
