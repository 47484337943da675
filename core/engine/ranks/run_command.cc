#include "ranks/run_command.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/log.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/config/model_path.h>
#include <capstan/plugin/host.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdio>
#include <limits>
#include <optional>
#include <utility>

#include "cli/commands.h"
#include "comm/agree.h"
#include "launch/error_report.h"
#include "predict/door.h"
#include "ranks/check_command.h"
#include "ranks/restart.h"
#include "ranks/stopping.h"
#include "ranks/torch_words.h"
#include "train/memory.h"
#include "train/run.h"

namespace capstan::ranks {
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

// The command line of a job that SLURM started again: rank 0 has looked for its run, and all continue with that.
launch::RunArguments with_restart(launch::RunArguments arguments, const launch::Environment& env, const Rank& rank) {
  const auto look = [&] { return join(find_restarted(env, rank.early.run, rank.early.checkpoint, arguments), "\n"); };
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

// What was predicted for this request, and what would save most: on a CPU rank what a GPU would save. At the run's end
// the prediction against what was measured.
class Predictions final : public command::RunExtension {
 public:
  Predictions(const job::Job& job, const Rank& rank, plugin::Host& host) : job_(job), rank_(rank), host_(host) {}

  void answer(monitor::MemoryQuestions& questions) override {
    questions.predicted = [this] { return train::memory_parts(job_.prediction.footprints); };
    questions.savings = [this] { return predict::door().savings(job_.config.request, host_); };
  }

  std::string after_training(const command::TrainedRun& run) override {
    if (!job_.prediction.activations) return {};
    return predict::door().against_actual(
        job_, {run.setup_bytes, run.peak_bytes, run.step_s, rank_.device.description, rank_.device.bytes});
  }

 private:
  const job::Job& job_;
  const Rank& rank_;
  plugin::Host& host_;
};

// What the GPU with the least memory has for tensors: all ranks learn the same. 0 on CPUs.
std::int64_t smallest_gpu_room(const Rank& rank) {
  if (rank.device.kind != "cuda") return 0;
  auto least = std::numeric_limits<std::int64_t>::max();
  for (const auto& bytes : rank.communicator->exchange(std::to_string(rank.device.bytes)))
    least = std::min<std::int64_t>(least, std::stoll(bytes));
  return std::max<std::int64_t>(0, least - predict::Gpu::reserve);
}

// Before anything is loaded: holds the prediction against the smallest GPU. All ranks wait for what would help.
void judge_memory(const job::Job& job, const Rank& rank, plugin::Host& host) {
  if (job.config.request.gpu_room == 0) return;
  const auto text = comm::from_first_rank(*rank.communicator, "holding the prediction against the GPUs",
                                          [&] { return predict::door().too_large_text(job, host); });
  if (text.empty()) return;
  if (job.config.run->memory_check == "refuse") {
    throw train::ConfigurationRefused(
        launch::error_text(Error(cat("this run does not fit into its GPUs, by prediction\n", trim(text)),
                                 "take what helps, or start it nevertheless: run.memory_check=warn")));
  }
  if (rank.first()) log::warning(cat("this run may not fit into its GPUs, by prediction\n", trim(text)));
}

// Where memory has run out the error says too what was predicted of it and what the parts hold.
[[noreturn]] void rethrow_with_memory(const std::exception& error, const train::Run& run) {
  const bool is_peers = dynamic_cast<const comm::PeerFailed*>(&error) != nullptr;  // its text may say it too
  if (is_peers || !train::is_out_of_memory(error)) throw;
  const auto known = in_words(error);
  const auto* own = known ? &*known : dynamic_cast<const Error*>(&error);
  const auto table = run.memory_text();
  if (!own || table.empty()) throw;
  auto faults = own->diagnostics();
  faults.front().what += "\n" + trim(table);
  Error more(std::move(faults));
  for (const auto& context : own->context()) more.add_context(context);
  throw Error(more);
}

train::RunSetting run_setting(const launch::RunArguments& arguments, const launch::Environment& env, const Rank& rank,
                              plugin::Host& host, const step::Stop& stop) {
  const auto print = [](const std::string& text) {
    terminal::print(text);
    std::fflush(stdout);
  };
  const auto opened = [&](const std::filesystem::path& folder) {
    if (rank.first()) note_job(env, arguments, folder);
    ConnectedRank(rank).record_start(folder);
  };
  const auto crash = env("CAPSTAN_CRASH_AT");
  const bool verbose = arguments.verbose || rank.launch.world.nodes > 1;
  const bool overwrites = ::isatty(STDERR_FILENO) == 1;
  return {.communicator = *rank.communicator,
          .plugins = host,
          .stop = stop,
          .device = rank.device,
          .environment = env,
          .output = {print, terminal::print_progress, ::isatty(STDOUT_FILENO) == 1, overwrites, verbose},
          .job = start_of_job(env),
          .offload_warning = rank.device.kind == "cpu" ? "" : launch::offload_warning(rank.launch, rank.cpus.threads),
          .at_point = crash ? crash_at(*crash) : checkpoint::AtPoint(),
          .request = [&] { return request_of_rank(with_restart(arguments, env, rank), env, rank); },
          .prepared =
              [&, verbose](const job::Job& job) {
                if (verbose) ConnectedRank(rank).print_start();
                judge_memory(job, rank, host);
              },
          .extensions =
              [&](const job::Job& job) {
                return std::vector<train::Extension>{{"plan", std::make_shared<Predictions>(job, rank, host)}};
              },
          .opened = opened};
}

int train_rank(const launch::RunArguments& arguments, const launch::Environment& env, const Rank& rank,
               RankState& state) {
  auto& stop = ask_on_signals(rank.first());
  if (rank.first()) stop.deadline = job_deadline(env);
  state.host = cli::plugin_host(env, rank.device.kind == "cuda");
  state.run.emplace(run_setting(arguments, env, rank, *state.host, stop));
  const auto end = state.run->train();
  if (end.exit_code) return *end.exit_code;
  const auto ending = end_stopped(end, stop, *rank.communicator);
  if (rank.first()) terminal::print_error(ending.message);
  if (rank.first() && ending.by_person && !end.folder.empty())
    terminal::print_error(resume_command(arguments.command_line, end.folder) + "\n");
  return ending.exit_code;
}

}  // namespace

setup::JobRequest request_of_rank(const launch::RunArguments& arguments, const launch::Environment& env,
                                  const Rank& rank) {
  const auto& world = rank.communicator->world();
  setup::JobRequest request;
  request.gpu_room = smallest_gpu_room(rank);
  request.phases = rank.phases;
  request.file = arguments.config;
  request.overrides = arguments.overrides;
  request.world_size = world.size;
  request.rank = world.rank;
  request.hub = config::hub_cache(env);
  request.device = rank.device.kind;
  request.gpu = rank.device.gpu;
  request.gpu_capability = rank.device.capability;
  request.activations = true;
  request.cache = rank.cache;
  request.ranks_per_node = world.local_size;
  request.purpose = arguments.purpose;
  request.weights = arguments.weights;
  request.split = arguments.split;
  return request;
}

int run_command(const launch::RunArguments& arguments, const launch::Environment& env) {
  // This is outside of what a failure unwinds: a rank that fails ends with its state as it is.
  auto state = std::make_unique<RankState>();
  return run_as_rank(arguments, env, [&](Rank& rank) {
    auto code = static_cast<int>(ExitCode::usage);
    try {
      code = train_rank(arguments, env, rank, *state);
    } catch (const train::ConfigurationRefused& refused) {
      if (rank.first()) terminal::print_error(refused.what());
    } catch (const std::exception& error) {
      if (!state->run) throw;
      state->run->give_up();
      rethrow_with_memory(error, *state->run);
    }
    state.reset();  // before the communicator goes
    return code;
  });
}

}  // namespace capstan::ranks
