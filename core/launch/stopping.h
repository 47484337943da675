#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>

#include <optional>
#include <string>

#include "launch/launch.h"
#include "train/stop.h"

CAPSTAN_BEGIN_NAMESPACE
namespace launch {

/// From here on SIGINT, SIGTERM, SIGUSR1 and SIGUSR2 end the process at once, with the exit code that goes with them:
/// until ranks have met there is nothing to save, and nobody to agree with. SIGCONT, which SLURM sends beside SIGTERM,
/// does nothing to a process that runs.
void catch_signals(int requeue_exit_code);

/// From here on they only ask; a third SIGINT ends the process. What they ask is the process's one Stop.
train::Stop& ask_on_signals();

/// Seconds that squeue's %L says are left: "1-02:03:04", "3:04", "59"; nothing for "UNLIMITED" and the like.
std::optional<double> seconds_left(const std::string& text);

/// When SLURM ends this job: from SLURM_JOB_END_TIME, else by asking squeue, for at most 10 s. Nothing outside of
/// SLURM, without a time limit, or where squeue is missing, as in many containers.
std::optional<train::Stop::Clock::time_point> job_deadline(const Environment& env);

/// How all ranks of a run that was stopped end it.
struct Ending {
  int exit_code = 0;
  std::string message;  ///< for rank 0 to print
};

/// What a stopped run is like when its ranks settle how to end.
struct StoppedRun {
  std::string when;        ///< "after step 12", "while loading the model"
  bool resumable = false;  ///< a later start goes on where this one ends
  int requeue_exit_code = 0;
};

/// Settled over all ranks, of which any may have got the signal. A collective.
Ending end_stopped(const StoppedRun& run, const train::Stop& stop, comm::Communicator& communicator);

}  // namespace launch
CAPSTAN_END_NAMESPACE
