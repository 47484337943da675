#include "commands/run_command.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/plugin/host.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <optional>
#include <utility>

#include "cli/plugin_folders.h"
#include "comm/agree.h"
#include "commands/rank_request.h"
#include "commands/run_extensions.h"
#include "launch/error_report.h"
#include "ranks/restart.h"
#include "ranks/start.h"
#include "ranks/stopping.h"
#include "train/run.h"

namespace capstan::commands {
namespace {

// CAPSTAN_CRASH_AT=7, for crash tests, ends the process at this point of a commit as kill -9 would.
checkpoint::AtPoint crash_at(const std::string& text) {
  constexpr auto last = static_cast<int>(checkpoint::CommitPoint::retention);
  for (int number = 1; number <= last; ++number) {
    if (text != std::to_string(number)) continue;
    return [number](int point) {
      if (point == number) ::kill(::getpid(), SIGKILL);
    };
  }
  throw Error(cat("CAPSTAN_CRASH_AT is '", text, "', not a point of a commit"),
              cat("unset it, or give a number from 1 to ", last));
}

// SLURM's number of this job and of its start, "4711.0"; empty outside of it.
std::string start_of_job(const launch::Environment& env) {
  const auto job = env("SLURM_JOB_ID");
  return job ? cat(*job, ".", env("SLURM_RESTART_COUNT").value_or("0")) : "";
}

ranks::Command command_of(const launch::RunArguments& arguments) { return {arguments.config, arguments.overrides}; }

// The command line of a job that SLURM started again: rank 0 has looked for its run, and all continue with that.
launch::RunArguments with_restart(launch::RunArguments arguments, const launch::Environment& env,
                                  const ranks::Rank& rank) {
  const auto look = [&] {
    return join(ranks::find_restarted(env, rank.early.run, rank.early.checkpoint, command_of(arguments)), "\n");
  };
  try {
    const auto found = comm::from_first_rank(*rank.communicator, "looking for the run that SLURM restarts", look);
    for (auto& override : split(found, '\n')) arguments.overrides.push_back(override);
  } catch (const Error& error) {
    throw train::ConfigurationRefused(launch::error_text(error));
  }
  return arguments;
}

// What a rank holds while it works. A failure leaves it as it is.
struct RankState {
  std::optional<plugin::Host> host;
  std::optional<train::Run> run;
};

std::string offload_warning(const ranks::Rank& rank) {
  return rank.device.name == "cpu" ? "" : launch::offload_warning(rank.launch, rank.cpus.threads);
}

train::RunSetting run_setting(const launch::RunArguments& arguments, const launch::Environment& env,
                              const ranks::Rank& rank, plugin::Host& host, const inference::Stop& stop) {
  const auto print = [](const std::string& text) {
    terminal::print(text);
    std::fflush(stdout);
  };
  const auto opened = [&](const std::filesystem::path& folder) {
    if (rank.first()) ranks::note_job(env, command_of(arguments), folder);
    ranks::record_start(rank, folder);
  };
  const auto crash = env("CAPSTAN_CRASH_AT");
  return {.communicator = *rank.communicator,
          .plugins = host,
          .stop = stop,
          .device = ranks::ConnectedRank(rank).device(),
          .environment = env,
          .output = {print, terminal::print_progress, ::isatty(STDOUT_FILENO) == 1, ::isatty(STDERR_FILENO) == 1},
          .job = start_of_job(env),
          .offload_warning = offload_warning(rank),
          .at_point = crash ? crash_at(*crash) : checkpoint::AtPoint(),
          .request = [&] { return request_of_rank(with_restart(arguments, env, rank), env, rank); },
          .prepared = [&] { ranks::print_start_table(rank); },
          .extensions = [&](const session::Job& job) { return own_extensions(job, rank, host); },
          .opened = opened};
}

int train_rank(const launch::RunArguments& arguments, const launch::Environment& env, const ranks::Rank& rank,
               RankState& state) {
  auto& stop = ranks::ask_on_signals();
  if (rank.first()) stop.deadline = ranks::job_deadline(env);
  state.host.emplace(cli::plugin_folders(env), rank.device.name == "cuda", cli::trusts_writers(env));
  state.run.emplace(run_setting(arguments, env, rank, *state.host, stop));
  const auto end = state.run->train();
  if (end.exit_code) return *end.exit_code;
  const auto ending = ranks::end_stopped({end.when, end.resumable, end.requeue_exit_code}, stop, *rank.communicator);
  if (rank.first()) terminal::print_error(ending.message);
  return ending.exit_code;
}

}  // namespace

int run_command(const launch::RunArguments& arguments, const launch::Environment& env) {
  // Outside of what a failure unwinds: a rank that fails ends with its state as it is.
  auto state = std::make_unique<RankState>();
  return ranks::run_as_rank(arguments, env, [&](ranks::Rank& rank) {
    auto code = static_cast<int>(ExitCode::usage);
    try {
      code = train_rank(arguments, env, rank, *state);
    } catch (const train::ConfigurationRefused& refused) {
      if (rank.first()) terminal::print_error(refused.what());
    } catch (...) {
      if (state->run) state->run->give_up();
      throw;
    }
    state.reset();  // before the communicator goes
    return code;
  });
}

}  // namespace capstan::commands
