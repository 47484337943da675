#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/plugin/host.h>

#include <functional>
#include <stdexcept>
#include <string>

#include "job/job.h"
#include "step/stop.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {

/// Faults of the configuration that some rank found and all ranks know, as they are printed.
class ConfigurationRefused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// The stages that `check` goes through too (job/job.cc reads them one after the other). Throws
/// ConfigurationRefused, on every rank the same faults at once: those of the lowest rank that found any. A session of
/// the job follows later. Collective.
job::Job prepare_together(const setup::JobRequest& request, plugin::Host& host, comm::Communicator& communicator);

/// A line for people that replaces the one before it, until the last of its kind.
using ShowProgress = std::function<void(const std::string& line, bool is_last)>;

/// Lets the job's samples be read from the token caches that it asks for. Rank 0 of each node writes them, or verifies
/// those that are there, and the others hear from it every few seconds, so that none waits in a collective for as
/// long as it takes; `show` is called on rank 0. Throws step::Stopped, or ConfigurationRefused, on all ranks at
/// once.
void read_token_caches(job::Job& job, const step::Stop& stop, comm::Communicator& communicator,
                       const ShowProgress& show);

}  // namespace train
CAPSTAN_END_NAMESPACE
