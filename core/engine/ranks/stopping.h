#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>

#include <optional>
#include <string>

#include "launch/launch.h"
#include "step/stop.h"

CAPSTAN_BEGIN_NAMESPACE
namespace train {
struct RunEnd;
}
namespace ranks {

/// From now on SIGINT, SIGTERM, SIGUSR1 and SIGUSR2 end the process at once, with their exit codes: before the
/// rendezvous there is nothing to save, and no rank to agree with. SIGCONT, which SLURM sends with SIGTERM, does
/// nothing to a running process.
void catch_signals(int requeue_exit_code);

/// From now on they only request a stop, in the process's one Stop; a second SIGINT ends the process at once. `speaks`:
/// at the first one this rank says so on standard error.
step::Stop& ask_on_signals(bool speaks);

/// Seconds left according to squeue's %L: "1-02:03:04", "3:04", "59"; nothing for "UNLIMITED" and the like.
std::optional<double> seconds_left(const std::string& text);

/// When SLURM ends this job: from SLURM_JOB_END_TIME, else by asking squeue, for at most 10 s. Nothing outside of
/// SLURM, without a time limit, or if squeue is missing, as in many containers.
std::optional<step::Stop::Clock::time_point> job_deadline(const launch::Environment& env);

/// How all ranks of a run that was stopped end it.
struct Ending {
  int exit_code = 0;
  std::string message;     ///< for rank 0 to print
  bool by_person = false;  ///< who may continue it with resume_command()
};

/// Agreed over all ranks, any of which may have got the signal. A collective.
Ending end_stopped(const train::RunEnd& run, const step::Stop& stop, comm::Communicator& communicator);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
