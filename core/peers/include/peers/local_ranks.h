#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// The only task that SLURM started on its node.
struct StepTask {
  int first_rank = 0;  ///< the first of the ranks that it starts, in the step
  std::string host;
};

/// How a process starts ranks on its host.
struct LocalStart {
  int ranks = 0;
  std::vector<std::string> arguments;              ///< the ranks', with the program's name first
  std::map<std::string, std::string> environment;  ///< what the ranks have besides what they find each other by
  std::chrono::milliseconds grace = std::chrono::seconds(10);
  std::vector<int> orderly;      ///< exit codes that are no failure: all ranks end so together
  std::optional<StepTask> step;  ///< the ranks are a part of srun's step
};

/// Starts this program that many times on this host, as ranks 0 to n-1, and waits for all. The ranks find each other
/// through CAPSTAN_RANK, CAPSTAN_WORLD_SIZE and CAPSTAN_RENDEZVOUS.
///
/// Rank 0's output is passed as it is, the other ranks' line by line after "[rank 2] ". SIGINT, SIGTERM, SIGUSR1 and
/// SIGUSR2 are passed on. When a rank fails, the others are told and have `grace` to end; then they get SIGTERM, and
/// SIGKILL after half of `grace` more. They die with this process. Returns the exit code of the rank that failed first
/// (128 + n for signal n); ExitCode::peer_failed only when every failing rank returns it. Call it before any thread is
/// started.
///
/// With `step` they are ranks of a step of srun's, and find the other nodes' as srun's own tasks do; each is numbered
/// by CAPSTAN_LOCAL_RANK of CAPSTAN_LOCAL_SIZE. If one dies, the other ranks of this node tell those of other nodes.
int run_local_ranks(const LocalStart& start);

}  // namespace peers
CAPSTAN_END_NAMESPACE
