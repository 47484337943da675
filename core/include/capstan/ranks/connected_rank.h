#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/command/command.h>

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
  bool spawn_local = false;  ///< a task that srun started alone on its node starts the node's ranks
};

/// A rank that is connected to its peers, as commands see it.
class ConnectedRank {
 public:
  /// `rank` must outlive it.
  explicit ConnectedRank(const Rank& rank) : rank_(rank) {}
  bool first() const;
  comm::Communicator& communicator() const;
  /// Runs `work` on the first rank alone: all ranks get its result, or throw its Error. `doing`, for messages: "making
  /// the run's folder". A collective for which no time limit holds.
  std::string from_first(const std::string& doing, const std::function<std::string()>& work) const;
  /// The same for a new folder, <dir>/<name>, or <name>-2, -3, … where there is one. `fix`: what the error says to do
  /// where it can't be made.
  std::filesystem::path new_folder(const std::string& doing, const std::filesystem::path& dir, const std::string& name,
                                   const std::string& fix = "set run.dir to a folder that you may write to") const;

 private:
  const Rank& rank_;
};

}  // namespace ranks
CAPSTAN_END_NAMESPACE
