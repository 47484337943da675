#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/command/command.h>
#include <capstan/command/run_extension.h>
#include <capstan/config/value.h>

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace ranks {

struct Rank;

/// How a command was called that ranks run together.
struct RanksCall {
  const command::Call& call;  ///< local ranks are called with the same arguments
  std::string config;         ///< a configuration file; empty: none
  std::vector<std::string> overrides;
  int ranks = 0;             ///< local ranks to start; 0: not given
  bool spawn_local = false;  ///< a task that is the only one srun started on its node starts the node's ranks
  std::string split = {};    ///< "train" or "eval", the only split of the data that is read; empty: all
};

/// A rank that is connected to its peers, as commands see it.
class ConnectedRank {
 public:
  /// `rank` must outlive it.
  explicit ConnectedRank(const Rank& rank) : rank_(rank) {}
  bool first() const;
  comm::Communicator& communicator() const;
  command::RankDevice device() const;
  /// Runs `work` on the first rank only: all ranks get its result, or throw its Error. `doing`, for messages: "making
  /// the run's folder". A collective for which no time limit holds.
  std::string from_first(const std::string& doing, const std::function<std::string()>& work) const;
  /// The same for a new folder, <dir>/<name>, or <name>-2, -3, … where there is one. `fix`: what the error says to do
  /// where it can't be made.
  std::filesystem::path new_folder(const std::string& doing, const std::filesystem::path& dir, const std::string& name,
                                   const std::string& fix = "set run.dir to a folder that you may write to") const;
  /// Rank 0 prints what each rank has, if there are several, and writes it to launch.json in a folder.
  void print_start() const;
  void record_start(const std::filesystem::path& folder) const;

 private:
  const Rank& rank_;
};

/// What is read of a command's configuration before ranks connect.
struct StartTables {
  config::Section own;   ///< the table that has the command's name
  std::string run_dir;   ///< run.dir
  std::string run_name;  ///< run.name, or what the configuration's file gives
  bool on_gpus = false;  ///< run.device allows them, and the driver shows some
};

/// Runs `work` on this rank, once it is connected to its peers, or starts local ranks. Before that `prepare` is called,
/// where no thread was started yet: it adds the faults of the command's own table to those of the tables that ranks
/// start by. These are all said once, and nothing is started. Returns the exit code. What the work throws ends all
/// ranks and becomes the exit code, as that of a run.
int with_ranks(const RanksCall& ranks_call, const std::function<void(const StartTables&, Diagnostics&)>& prepare,
               const std::function<int(const ConnectedRank&)>& work);

}  // namespace ranks
CAPSTAN_END_NAMESPACE
