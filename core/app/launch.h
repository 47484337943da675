#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/connect.h>
#include <capstan/comm/world.h>

#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace app {

/// Looks up an environment variable.
using Environment = std::function<std::optional<std::string>(const std::string& name)>;
/// The process's own.
Environment process_environment();
/// A fixed one, for tests.
Environment environment(std::map<std::string, std::string> variables);

/// What the environment says about who this process is.
struct Launch {
  comm::World world;
  std::string host;                   ///< MASTER_ADDR, where it counts; else empty
  int port = 0;                       ///< MASTER_PORT
  bool store_exists = false;          ///< torchrun's agent or `capstan run -n` runs the store
  std::string key = "run";            ///< tells jobs, steps and restarts apart: "4711.0.2"
  std::vector<std::string> nodes;     ///< the step's hosts, where known
  std::vector<std::string> warnings;  ///< to be logged by rank 0

  /// Where this launch's ranks meet. `folder`, which all nodes share, takes the file in which rank 0 publishes the
  /// address, where no MASTER_ADDR is given.
  comm::Rendezvous rendezvous(const std::filesystem::path& folder) const;
};

/// Finds out who started this process. In order: torchrun (known by what it alone sets, also inside srun),
/// `capstan run -n` itself, OpenMPI's mpirun, srun (by SLURM_STEP_ID); otherwise it runs alone. Throws Error for
/// variables that contradict each other.
Launch read_launch(const Environment& env);

/// "node[01-03,7]-ib,login1" -> node01-ib, node02-ib, … as SLURM writes host lists. Throws Error for a malformed one.
std::vector<std::string> expand_hostlist(const std::string& text);

}  // namespace app
CAPSTAN_END_NAMESPACE
