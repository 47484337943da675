#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

/// Starts this program `n` times on this host, as ranks 0 to n-1, with `arguments` (the program's name first), and
/// waits for all. The ranks find each other through CAPSTAN_RANK, CAPSTAN_WORLD_SIZE and CAPSTAN_RENDEZVOUS.
///
/// Rank 0's output is passed as it is, the other ranks' line by line after "[rank 2] ". SIGINT, SIGTERM, SIGUSR1 and
/// SIGUSR2 are passed on. When a rank fails, the others are told and have `grace` to end; then they get SIGTERM, and
/// SIGKILL after half of `grace` more. They die with this process. Returns the exit code of the rank that failed first
/// (128 + n for signal n); ExitCode::peer_failed only when every failing rank returns it. Exit codes in `orderly` are
/// no failure: all ranks end so together. Call it before any thread is started.
int run_local_ranks(int n, const std::vector<std::string>& arguments,
                    std::chrono::milliseconds grace = std::chrono::seconds(10), std::vector<int> orderly = {});

/// The same for a task that SLURM started alone on its node: its `n` ranks are those of the step from `first_rank` on,
/// and find the other nodes' as srun's own tasks do. A rank is numbered by CAPSTAN_LOCAL_RANK of CAPSTAN_LOCAL_SIZE.
/// If one dies, the other ranks of this node (`host`) tell those of other nodes.
int run_ranks_of_step(int n, int first_rank, const std::string& host, const std::vector<std::string>& arguments,
                      std::chrono::milliseconds grace = std::chrono::seconds(10), std::vector<int> orderly = {});

/// "killed by signal 9 (SIGKILL)", with its usual cause.
std::string signal_text(int signal);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
