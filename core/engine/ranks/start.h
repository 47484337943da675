#pragma once
#include <capstan/base/export.h>
#include <capstan/ranks/connected_rank.h>
#include "comm/connect.h"

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "job/job.h"
#include "launch/arguments.h"
#include "launch/cpu_share.h"
#include "launch/launch.h"
#include "ranks/comm_settings.h"
#include "ranks/gpu_module.h"
#include "ranks/rank_table.h"
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

/// A rank that is connected to its peers.
struct Rank {
  launch::Launch launch;
  Early early;
  Device device;
  launch::CpuShare cpus;
  CommSettings settings;
  std::string cache;  ///< CAPSTAN_CACHE
  std::shared_ptr<PhaseClock> phases = std::make_shared<PhaseClock>();
  std::unique_ptr<comm::Communicator> communicator;
  std::vector<RankRow> rows;  ///< all ranks' rows

  bool first() const { return launch.world.rank == 0; }
};

/// A command of all ranks: starts local ones if the command line says so, else starts this one and runs `body`. An
/// exception of the body or of a peer is sent to all ranks, printed once, and becomes the exit code; a rank that fails
/// ends here without destroying what hanging collectives may still use. What the body keeps must outlive the call.
int run_as_rank(const launch::RunArguments& arguments, const launch::Environment& env,
                const std::function<int(Rank&)>& body);

/// The command line of a command that is a plugin.
launch::RunArguments arguments_of(const RanksCall& ranks_call);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
