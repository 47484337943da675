#include <capstan/ranks/connected_rank.h>

#include "comm/agree.h"
#include "observe/run_folder.h"
#include "ranks/start.h"

namespace capstan::ranks {

bool ConnectedRank::first() const { return rank_.first(); }

comm::Communicator& ConnectedRank::communicator() const { return *rank_.communicator; }

std::string ConnectedRank::from_first(const std::string& doing, const std::function<std::string()>& work) const {
  return comm::from_first_rank(communicator(), doing, work);
}

std::filesystem::path ConnectedRank::new_folder(const std::string& doing, const std::filesystem::path& dir,
                                                const std::string& name, const std::string& fix) const {
  return from_first(doing, [&] { return observe::RunFolder::make_new(dir, name, fix).string(); });
}

launch::RunArguments arguments_of(const RanksCall& ranks_call) {
  launch::RunArguments arguments;
  arguments.config = ranks_call.config;
  arguments.overrides = ranks_call.overrides;
  arguments.ranks = ranks_call.ranks;
  arguments.spawn_local = ranks_call.spawn_local;
  arguments.command_line = {"capstan", ranks_call.call.name};
  const auto& words = ranks_call.call.arguments;
  arguments.command_line.insert(arguments.command_line.end(), words.begin(), words.end());
  return arguments;
}

}  // namespace capstan::ranks
