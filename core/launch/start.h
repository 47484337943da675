#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/connect.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/comm_settings.h"
#include "launch/cpu_share.h"
#include "launch/gpu_module.h"
#include "launch/launch.h"
#include "launch/rank_table.h"
#include "session/job.h"
#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace launch {

/// The command line of a command that ranks run together.
struct RunArguments {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;             ///< local ranks to start; 0: not given
  bool spawn_local = false;  ///< a task that srun started alone on its node starts the node's ranks
  int argc = 0;
  char** argv = nullptr;  ///< to start local ranks with
  setup::Purpose purpose = setup::Purpose::train;
  std::string weights;  ///< folder of a run's weights, see setup::JobRequest
};

/// The configuration's options for connecting. Faults are reported later, when all ranks are connected, so that all of
/// them end with the same message.
struct Early {
  setup::RunOptions run;
  setup::CommOptions comm;
  setup::PreflightOptions preflight;
  setup::CheckpointOptions checkpoint;
  std::string precision;  ///< train.precision

  /// The exit code of a run that a signal stops, before and after the rendezvous.
  int stop_code() const;
};
Early read_early(const RunArguments& arguments);

/// If this process only starts ranks: starts them and returns their exit code. That is -n outside of any launcher, or
/// --spawn-local in a task that srun started alone on its node, by default one rank per GPU. Throws Error if that makes
/// no sense. Returns nothing in a process that is a rank itself.
std::optional<int> start_local_ranks(const Launch& launch, const Early& early, const RunArguments& arguments);

/// Decides this rank's device and opens the GPU module, before ATen is used for the first time.
struct Device {
  std::string name = "cpu";
  GpuModule gpu;
};

/// A rank that is connected to its peers.
struct Rank {
  Launch launch;
  Early early;
  Device device;
  CpuShare cpus;
  CommSettings settings;
  std::string cache;  ///< CAPSTAN_CACHE
  std::unique_ptr<comm::Communicator> communicator;
  std::vector<RankRow> rows;  ///< of all ranks

  bool first() const { return launch.world.rank == 0; }
};

/// Opens the device, sets ATen's threads and NCCL's environment variables, and connects to the peers. A rank that
/// fails before it has connected tells the others, whose start_rank() then throws PeerFailed.
Rank start_rank(const Launch& launch, const Early& early, const Environment& env);

/// A command of all ranks: starts local ones if the command line says so, else starts this one and runs `body`. An
/// exception of the body or of a peer is sent to all ranks, printed once, and becomes the exit code; a rank that fails
/// ends here without destroying what hanging collectives may still use. What the body keeps must outlive the call.
int run_as_rank(const RunArguments& arguments, const Environment& env, const std::function<int(Rank&)>& body);

}  // namespace launch
CAPSTAN_END_NAMESPACE
