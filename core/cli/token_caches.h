#pragma once
#include <capstan/comm/communicator.h>

#include "setup/job.h"
#include "train/stop.h"

namespace capstan::cli {

/// The job's samples, read from the token caches that it asks for. Rank 0 of each node writes them, or verifies those
/// that are there, and the others hear from it every few seconds, so that nobody waits in a collective for as long as
/// it takes. Throws train::Stopped, or ConfigurationRefused, on all ranks at once.
setup::Samples from_caches(const setup::Job& job, const train::Stop& stop, comm::Communicator& communicator);

}  // namespace capstan::cli
