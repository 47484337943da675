#include "commands/run_command.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/log.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <optional>
#include <utility>

#include <capstan/plugin/host.h>
#include "cli/plugin_folders.h"
#include "comm/agree.h"
#include "commands/check_command.h"
#include "commands/memory_questions.h"
#include "commands/preflight_command.h"
#include "commands/prepare_together.h"
#include "commands/refused.h"
#include "commands/token_caches.h"
#include "config/document.h"
#include "launch/error_report.h"
#include "observe/hold_run_folder.h"
#include "plan/against_actual.h"
#include "plan/gpu_fit.h"
#include "plan/step_time.h"
#include "ranks/restart.h"
#include "ranks/start.h"
#include "ranks/stopping.h"
#include "session/session.h"
#include "setup/unsaved.h"
#include "train/of_job.h"
#include "train/resume.h"

namespace capstan::commands {
namespace {

// What rank 0 says while parameters are filled: a line that is written over on a terminal, one every ten seconds in a
// file.
std::function<void(std::int64_t, std::int64_t)> fill_progress() {
  using Clock = std::chrono::steady_clock;
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  return [terminal, last = Clock::now()](std::int64_t done, std::int64_t all) mutable {
    if (!terminal && Clock::now() - last < std::chrono::seconds(10)) return;
    last = Clock::now();
    terminal::print_progress(cat("filling parameters: ", thousands(done), " of ", thousands(all)), done == all);
  };
}

void print_start(const session::Job& job, const observe::RunFolder& folder, const session::Resume& resume) {
  terminal::print(cat(job.model_summary(), job.ranks_summary(), "run folder: ", folder.path().string(), "\n"));
  if (resume.reader) {
    terminal::print(cat("resuming from ", resume.reader->path().string(), ", after step ", resume.reader->meta().step,
                        " of ", job.samples.plan.steps, "\n"));
  }
  std::fflush(stdout);
}

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

// What checkpoints are told of the process.
train::SaveSetting save_setting(const launch::Environment& env, const session::Resume& resume) {
  train::SaveSetting setting;
  setting.resume = &resume;
  if (const auto job = start_of_job(env); !job.empty()) setting.attempt = job;
  if (const auto crash = env("CAPSTAN_CRASH_AT")) setting.at_point = crash_at(*crash);
  return setting;
}

// What a rank holds while it trains. Kept outside of train_rank so that a failure can leave it as it is.
struct RankState {
  std::unique_ptr<record::RunLock> lock;
  std::optional<plugin::Host> host;
  std::optional<session::Job> job;
  std::optional<observe::RunFolder> folder;
  session::Resume resume;
  std::optional<session::Session> session;
};

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
    throw ConfigurationRefused(launch::error_text(error));
  }
  return arguments;
}

// In words, where an offloaded optimizer would crawl.
void warn_of_offload(const session::Job& job, const ranks::Rank& rank) {
  if (!rank.first() || rank.device.name == "cpu" || !job.topology.policy.offload_optim) return;
  const auto warning = launch::offload_warning(rank.launch, rank.cpus.threads);
  if (!warning.empty()) log::warning(warning);
}

// The files that a run begins with: every rank's log, and what rank 0 writes.
void open_folder(const launch::RunArguments& arguments, const launch::Environment& env, const ranks::Rank& rank,
                 const std::filesystem::path& folder, RankState& state) {
  const int own = rank.launch.world.rank;
  state.folder.emplace(folder, own);
  log::configure(state.folder->log_file(), log::Level::warning, own);
  state.folder->write_config(state.job->tables());
  if (rank.first()) ranks::note_job(env, command_of(arguments), folder);
  ranks::record_start(rank, folder);
}

// All that comes before training. Throws inference::Stopped on all ranks when one is asked to stop meanwhile; `phase`
// says where. Returns an exit code other than 0 where the pre-flight ends the run.
int load(const launch::RunArguments& arguments, const launch::Environment& env, const ranks::Rank& rank,
         const inference::Stop& stop, RankState& state, std::string& phase) {
  auto& communicator = *rank.communicator;
  std::vector<int> everyone(static_cast<std::size_t>(communicator.world().size));
  std::iota(everyone.begin(), everyone.end(), 0);
  const inference::StopAgreement agreement(communicator.group("loading", everyone, c10::Device(c10::DeviceType::CPU)),
                                           stop);
  phase = "while reading the configuration";
  state.job.emplace(prepare_together(with_restart(arguments, env, rank), env, rank, *state.host));
  agreement.check();
  ranks::print_start_table(rank);
  phase = "while tokenizing";
  auto samples = from_caches(*state.job, stop, communicator);
  state.job.emplace(session::with_samples(std::move(*state.job), std::move(samples)));
  phase = "while loading the model";
  const auto& job = *state.job;
  const auto folder = train::shared_run_folder(job.config, communicator);
  state.lock = observe::hold_run_folder(folder, start_of_job(env), communicator, agreement);
  comm::agree(communicator, "opening the run's folder", [&] {
    open_folder(arguments, env, rank, folder, state);
    return std::string();
  });
  warn_of_offload(job, rank);
  if (const auto warning = setup::unsaved_warning(job.config.checkpoint); rank.first() && !warning.empty())
    log::warning(warning);
  phase = "in the pre-flight";
  if (const int code = preflight_of_run(rank, state.folder->path(), agreement); code != 0) return code;
  phase = "while loading the model";
  state.resume = train::resume_run(job, communicator);
  agreement.check();
  const auto show = rank.first() ? fill_progress() : nullptr;
  const auto progress = [&](std::int64_t done, std::int64_t all) {
    if (show) show(done, all);
    agreement.check();
  };
  state.session = session::materialise(job, communicator, progress, state.resume.reader.get());
  return 0;
}

// What is missing of the run's results for lack of room, said on rank 0 and known to all; the log's own lines are said
// by each rank.
bool has_lost_results(const ranks::Rank& rank, RankState& state) {
  constexpr std::chrono::milliseconds patience{5000};
  const auto missing = comm::agree(*rank.communicator, "writing the run's last lines", [&] {
                         return state.folder->finish(patience);
                       }).front();
  if (rank.first() && !missing.empty()) {
    log::error(cat("not all of the run's results could be written:\n", missing,
                   "\n    fix: free space there; what the run has saved as checkpoints and weights is whole"));
  }
  if (const auto lines = log::finish(std::chrono::milliseconds(0)); !lines.empty()) log::warning(lines);
  return !missing.empty();
}

// Predicted against actual, of the rank that used most.
std::string prediction_text(const session::Job& job, const ranks::Rank& rank, const train::Loop& loop,
                            const session::Resume& resume) {
  if (!rank.first() || loop.stopped()) return {};
  plan::Actual actual;
  for (const auto& peak : loop.peaks()) {
    actual.setup = std::max(actual.setup, peak.device_setup);
    actual.device = std::max(actual.device, peak.device);
  }
  // The time of a run that was resumed is of other machines too.
  if (!resume.reader) actual.step_s = loop.usual_step_s();
  const auto& gpu = rank.device.gpu;
  const auto figures = plan::figures_of_device(gpu.description, gpu.bytes);
  double predicted = 0;
  if (const auto& work = job.prediction.work; work && figures)
    predicted = plan::step_time(*work, job.topology.batch.accumulation, *figures).total();
  return plan::against_actual(job.prediction, job.config.device, actual, predicted);
}

int train_rank(const launch::RunArguments& arguments, const launch::Environment& env, const ranks::Rank& rank,
               RankState& state) {
  auto& stop = ranks::ask_on_signals();
  if (rank.first()) stop.deadline = ranks::job_deadline(env);
  state.host.emplace(cli::plugin_folders(env), rank.device.name == "cuda", cli::trusts_writers(env));
  ranks::StoppedRun stopped;
  try {
    if (const int code = load(arguments, env, rank, stop, state, stopped.when); code != 0) return code;
    const auto& job = *state.job;
    if (rank.first()) print_start(job, *state.folder, state.resume);
    const train::ProcessFacts process{::isatty(STDOUT_FILENO) == 1, rank.device.gpu.uuid, env,
                                      memory_questions(job.config.request, *state.host)};
    train::Loop loop(train::loop_parts(job, *state.session, state.folder->path(), process), *state.folder, stop,
                     save_setting(env, state.resume));
    const auto ended = loop.run();
    terminal::print(prediction_text(job, rank, loop, state.resume));
    if (rank.first() && !loop.model().empty()) terminal::print(loop.model() + "\n");
    const bool lost = has_lost_results(rank, state);
    if (!loop.stopped()) return static_cast<int>(lost ? ExitCode::failure : ExitCode::success);
    stopped.when = cat("after step ", ended.steps);
  } catch (const inference::Stopped&) {
    log::debug(cat("stopped ", stopped.when));
  }
  stopped.resumable = state.job->config.checkpoint->saves();
  stopped.requeue_exit_code = static_cast<int>(state.job->config.run->requeue_exit_code);
  const auto ending = ranks::end_stopped(stopped, stop, *rank.communicator);
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
    } catch (const ConfigurationRefused& refused) {
      if (rank.first()) terminal::print_error(refused.what());
    } catch (...) {
      // What waits for a disk is lost with the process.
      const auto missing = state->folder ? state->folder->finish(std::chrono::milliseconds(0)) : std::string();
      if (!missing.empty()) log::error(missing);
      state->lock.reset();  // all else stays as it is; another process may continue with the run at once
      throw;
    }
    state.reset();  // before the communicator goes
    return code;
  });
}

}  // namespace capstan::commands
