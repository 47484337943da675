#pragma once
#include <capstan/base/export.h>
#include <capstan/launch/world.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace launch {

/// Looks up an environment variable.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// The process's own.
Environment process_environment();
/// A fixed one, for tests.
Environment environment(std::map<std::string, std::string> variables);

/// What SLURM allocated on each node of a step; 0: unknown.
struct Allocation {
  int gpus_on_node = 0;
  int cpus_on_node = 0;
  int cpus_per_task = 0;
  bool gpus_per_task = false;  ///< --gpus-per-task: each task sees only its own
};

/// What the environment says of its user.
struct UserFacts {
  std::string home;    ///< $HOME
  std::string secret;  ///< CAPSTAN_SECRET, which the ranks' launcher or the job script gave all of them
};

/// What the environment says about who this process is.
struct Launch {
  World world;
  std::string host;                 ///< MASTER_ADDR, if it is used; else empty
  int port = 0;                     ///< MASTER_PORT
  bool store_exists = false;        ///< torchrun's agent or `capstan run -n` runs the store
  std::string key = "run";          ///< tells jobs, steps and restarts apart: "4711.0.2"
  std::vector<std::string> nodes;   ///< the step's hosts, if known
  std::vector<std::string> hosts;   ///< each rank's, if known
  std::vector<int> ports;           ///< ports that SLURM reserved for the step (--resv-ports)
  std::vector<int> tasks;           ///< srun's tasks on each node
  std::optional<Allocation> slurm;  ///< inside a step of srun's
  bool spawned = false;             ///< started by a task of srun's that starts the ranks of its node
  int failure_note = -1;  ///< descriptor of the note where that task says that one of them died (peers::FailureNote)
  bool in_slurm = false;  ///< in a job, whatever started this process
  UserFacts user;
  std::vector<std::string> warnings;  ///< to be logged by rank 0

  /// The rendezvous of this launch's ranks. `folder`, which all nodes share, is for the file in which rank 0 publishes
  /// the address if there is no MASTER_ADDR.
  Rendezvous rendezvous(const std::filesystem::path& folder) const;
};

/// Finds out who started this process. In order: torchrun (known by variables that only it sets, also inside srun),
/// `capstan run -n` itself, OpenMPI's mpirun, srun (by SLURM_STEP_ID); otherwise it is a single rank. Throws Error for
/// variables that contradict each other.
Launch read_launch(const Environment& env);

/// Checks SLURM's layout of tasks before anything is started: throws Error with the `#SBATCH` line to change when the
/// nodes' numbers of tasks differ.
void check_tasks(const Launch& launch);

/// The same for a rank that sees `visible` GPUs: one task on a node of several is refused, unless CUDA_VISIBLE_DEVICES
/// hides the others. Returns warnings: GPUs that are idle, and --gpus-per-task.
std::vector<std::string> check_gpus(const Launch& launch, int visible);

/// "21000-21003,21010" -> each of them, as SLURM writes ports and the kernel CPUs; none above 65535.
std::vector<int> expand_ranges(const std::string& list);

/// "node[01-03,7]-ib,login1" -> node01-ib, node02-ib, … as SLURM writes host lists. Throws Error for a malformed one.
std::vector<std::string> expand_hostlist(const std::string& text);

}  // namespace launch
CAPSTAN_END_NAMESPACE
