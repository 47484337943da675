#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/terminal.h>
#include <capstan/config/run_name.h>
#include <capstan/plugin/host.h>
#include <capstan/ranks/connected_rank.h>

#include <algorithm>
#include <cstdio>

#include "comm/agree.h"
#include "config/document.h"
#include "launch/error_report.h"
#include "plugin/hints.h"
#include "ranks/start.h"
#include "train/run_folder.h"

namespace capstan::ranks {
namespace {

StartTables read_tables(const RanksCall& ranks_call, Diagnostics& faults) {
  const auto& call = ranks_call.call;
  const auto& file = ranks_call.config;
  const auto has_table = [&](const std::string& name) { return call.plugins.has_table(name); };
  const auto document = config::load(file, ranks_call.overrides, faults, has_table);
  const config::Options<setup::RunOptions> run(document.section("run"), faults);
  setup::check_run(run, faults);
  (void)config::Options<setup::CommOptions>(document.section("comm"), faults);
  StartTables tables{{call.name, {config::Origin::Layer::file, file, 0}, {}}, run->dir, {}, false};
  tables.run_name = run->name.value_or(config::name_of_run(file));
  tables.on_gpus = run->device != "cpu" && !gpus::ask_driver().gpus.empty();
  for (auto& table : document.of_commands()) {
    if (table.path == call.name) tables.own = table;
  }
  return tables;
}

}  // namespace

bool ConnectedRank::first() const { return rank_.first(); }

comm::Communicator& ConnectedRank::communicator() const { return *rank_.communicator; }

command::RankDevice ConnectedRank::device() const { return rank_.device; }

void ConnectedRank::print_start() const {
  if (!first() || rank_.launch.world.size == 1) return;
  terminal::print(start_text(rank_));
  std::fflush(stdout);
}

void ConnectedRank::record_start(const std::filesystem::path& folder) const {
  if (first()) write_file(folder / "launch.json", start_json(rank_));
}

std::string ConnectedRank::from_first(const std::string& doing, const std::function<std::string()>& work) const {
  return comm::from_first_rank(communicator(), doing, work);
}

std::filesystem::path ConnectedRank::new_folder(const std::string& doing, const std::filesystem::path& dir,
                                                const std::string& name, const std::string& fix) const {
  return from_first(doing, [&] { return train::RunFolder::make_new(dir, name, fix).string(); });
}

launch::RunArguments arguments_of(const RanksCall& ranks_call) {
  launch::RunArguments arguments;
  arguments.config = ranks_call.config;
  arguments.overrides = ranks_call.overrides;
  arguments.ranks = ranks_call.ranks;
  arguments.spawn_local = ranks_call.spawn_local;
  arguments.split = ranks_call.split;
  arguments.command_line = {"capstan", ranks_call.call.name};
  const auto& words = ranks_call.call.arguments;
  arguments.command_line.insert(arguments.command_line.end(), words.begin(), words.end());
  return arguments;
}

int with_ranks(const RanksCall& ranks_call, const std::function<void(const StartTables&, Diagnostics&)>& prepare,
               const std::function<int(const ConnectedRank&)>& work) {
  const auto& call = ranks_call.call;
  const auto report = [&](const Error& error) {
    return launch::report_exception(plugin::with_hints(error, call.plugins));
  };
  try {
    Diagnostics faults;
    prepare(read_tables(ranks_call, faults), faults);
    faults.throw_if_any();
  } catch (const Error& error) {
    if (launch::read_launch(call.environment).world.rank == 0) report(error);
    return static_cast<int>(ExitCode::usage);
  }
  try {
    return run_as_rank(arguments_of(ranks_call), call.environment,
                       [&](const Rank& rank) { return work(ConnectedRank(rank)); });
  } catch (const Error& error) {
    return report(error);
  }
}

}  // namespace capstan::ranks
