#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/connect.h>
#include <capstan/ranks/connected_rank.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launch/arguments.h"
#include "launch/comm_settings.h"
#include "launch/cpu_share.h"
#include "launch/launch.h"
#include "ranks/gpu_module.h"
#include "ranks/rank_table.h"
#include "session/job.h"
#include "setup/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

/// The configuration's options for connecting. Faults are reported later, when all ranks are connected, so that all of
/// them end with the same message.
struct Early {
  setup::RunOptions run;
  setup::CommOptions comm;
  setup::CheckpointOptions checkpoint;
  std::string precision;  ///< train.precision

  /// The exit code of a run that a signal stops, before and after the rendezvous.
  int stop_code() const;
};
Early read_early(const launch::RunArguments& arguments);

/// If this process only starts ranks: starts them and returns their exit code. That is -n outside of any launcher, or
/// --spawn-local in a task that srun started alone on its node, by default one rank per GPU. Throws Error if that makes
/// no sense. Returns nothing in a process that is a rank itself.
std::optional<int> start_local_ranks(const launch::Launch& launch, const Early& early,
                                     const launch::RunArguments& arguments);

/// Decides this rank's device and opens the GPU module, before ATen is used for the first time.
struct Device {
  std::string name = "cpu";
  GpuModule gpu;
};

/// A rank that is connected to its peers.
struct Rank {
  launch::Launch launch;
  Early early;
  Device device;
  launch::CpuShare cpus;
  launch::CommSettings settings;
  std::string cache;  ///< CAPSTAN_CACHE
  std::unique_ptr<comm::Communicator> communicator;
  std::vector<RankRow> rows;  ///< of all ranks

  bool first() const { return launch.world.rank == 0; }
};

/// Opens the device, sets ATen's threads and NCCL's environment variables, and connects to the peers. A rank that
/// fails before it has connected tells the others, whose start_rank() then throws PeerFailed.
Rank start_rank(const launch::Launch& launch, const Early& early, const launch::Environment& env);

/// A command of all ranks: starts local ones if the command line says so, else starts this one and runs `body`. An
/// exception of the body or of a peer is sent to all ranks, printed once, and becomes the exit code; a rank that fails
/// ends here without destroying what hanging collectives may still use. What the body keeps must outlive the call.
int run_as_rank(const launch::RunArguments& arguments, const launch::Environment& env,
                const std::function<int(Rank&)>& body);

/// The command line of a command that is a plugin.
launch::RunArguments arguments_of(const RanksCall& ranks_call);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
