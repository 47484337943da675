#include "app/run_command.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan/comm/connect.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <stdexcept>

#include "app/check_command.h"
#include "app/gpu_module.h"
#include "app/hub_cache.h"
#include "app/local_ranks.h"
#include "app/program.h"
#include "app/restart.h"
#include "app/stopping.h"
#include "config/document.h"
#include "data/token_cache.h"
#include "plugin/host.h"
#include "setup/session.h"
#include "setup/token_caches.h"
#include "train/loop.h"
#include "train/resume.h"

namespace capstan::app {
namespace {

// Faults of the configuration that some rank found and all ranks know.
class ConfigurationRefused : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What connecting needs of the configuration. Faults are not judged here: that comes when all ranks are connected,
// so that all of them end with the same words.
struct Early {
  setup::RunOptions run;
  setup::CommOptions comm;
  setup::CheckpointOptions checkpoint;

  /// The exit code of a run that a signal stops, before and after its ranks have met.
  int stop_code() const {
    return checkpoint.saves() ? static_cast<int>(run.requeue_exit_code) : static_cast<int>(ExitCode::interrupted);
  }
};

Early read_early(const RunArguments& arguments) {
  Early early;
  try {
    Diagnostics ignored;
    const auto document = config::load(arguments.config, arguments.overrides, ignored);
    early.run = *config::Options<setup::RunOptions>(document.section("run"), ignored);
    early.checkpoint = *config::Options<setup::CheckpointOptions>(document.section("checkpoint"), ignored);
    early.comm = *config::Options<setup::CommOptions>(document.section("comm"), ignored);
  } catch (const Error&) {
    log::debug("the configuration cannot be read before connecting");
  }
  return early;
}

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

// Where this rank computes: settled, and the GPU module opened, before ATen is used for the first time. "auto" is
// cuda where the driver shows a GPU.
struct Device {
  std::string name = "cpu";
  GpuModule gpu;
};

// Once, in words, instead of by each of the ranks that would have none.
void check_enough_gpus(const Early& early, int ranks) {
  if (early.run.device == "cpu") return;
  const auto gpus = static_cast<int>(ask_driver().gpus.size());
  if (gpus == 0 || ranks <= gpus) return;  // without any, the ranks say what is wrong
  throw Error(cat("-n ", ranks, " asks for ", ranks, " ranks, one GPU each, but this machine shows ", gpus,
                  gpus == 1 ? " GPU" : " GPUs"),
              cat("use -n ", gpus, ", or set run.device=cpu"));
}

Device open_device(const Early& early, const comm::World& world) {
  Device device;
  const bool wants_gpu = early.run.device == "cuda" || (early.run.device == "auto" && !ask_driver().gpus.empty());
  if (!wants_gpu) return device;
  // What cuBLAS needs to be deterministic; read when CUDA starts.
  if (early.run.deterministic) ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 0);
  device.name = "cuda";
  device.gpu = open_gpu_module(world);
  for (const auto& warning : device.gpu.warnings) log::warning(warning);
  return device;
}

std::unique_ptr<comm::Communicator> connect_ranks(const Launch& launch, const Early& early, const Device& device) {
  comm::ConnectOptions options;
  options.nccl = device.gpu.nccl;
  options.world = launch.world;
  options.rendezvous = launch.rendezvous(early.run.dir);
  options.deterministic = early.run.deterministic;
  options.timeout = milliseconds(early.comm.timeout_s);
  options.silence = milliseconds(early.comm.silence_s);
  options.on_stuck = [](const std::string& first_error) {
    std::fprintf(stderr, "%s\n", first_error.c_str());
    std::_Exit(static_cast<int>(ExitCode::peer_failed));
  };
  return comm::connect(options);
}

// The job, or on every rank the same faults at once: those of the lowest rank that found any.
setup::Job prepare_together(const RunArguments& arguments, const Device& device, plugin::Host& host,
                            comm::Communicator& communicator, const setup::HubCache& hub) {
  const auto& world = communicator.world();
  std::optional<setup::Job> job;
  std::string faults;
  try {
    Diagnostics diagnostics;
    setup::JobRequest request;
    request.file = arguments.config;
    request.overrides = arguments.overrides;
    request.world_size = world.size;
    request.rank = world.rank;
    request.hub = hub;
    request.device = device.name;
    request.gpu = device.gpu.device;
    request.ranks_per_node = world.local_size;
    request.purpose = arguments.purpose;
    request.weights = arguments.weights;
    job = setup::prepare(request, host, diagnostics);
    diagnostics.throw_if_any();
  } catch (const Error& error) {
    faults = error_text(error);
  }
  const auto all = communicator.exchange(faults);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    const bool everywhere = std::count(all.begin(), all.end(), all[rank]) == world.size;
    throw ConfigurationRefused(everywhere ? all[rank]
                                          : all[rank] + cat("    on rank ", rank, " of ", world.size, "\n"));
  }
  return std::move(*job);
}

void print_progress(const std::string& what, std::int64_t done, std::int64_t all) {
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  std::fprintf(stderr, "%stokenizing %s: %s of %s%s", terminal ? "\r" : "", what.c_str(), thousands(done).c_str(),
               thousands(all).c_str(), done == all || !terminal ? "\n" : "");
}

// Writes the token caches that the job reads from: rank 0 of each node does, and the others hear from it every few
// seconds, so that nobody waits in a collective for as long as it takes.
void build_caches(setup::Job& job, const train::Stop& stop, comm::Communicator& communicator) {
  constexpr std::chrono::milliseconds while_others_wait{5000};
  constexpr const char* unfinished = "unfinished";
  constexpr const char* asked = "asked to stop";
  const auto& world = communicator.world();
  for (const auto& split : setup::cached_splits(job)) {
    auto& source = job.*split.source;
    std::optional<data::TokenCacheBuilder> builder;
    if (world.local_rank == 0 && !data::is_built(split.cache)) builder.emplace(source, split.cache);
    for (bool waiting = true; waiting;) {
      std::string state;
      try {
        if (builder && !builder->advance(while_others_wait)) state = unfinished;
        if (builder && world.rank == 0) print_progress(split.name, builder->done(), source->size());
      } catch (const Error& error) {
        state = error_text(error);
      }
      if (stop.asked() && (state.empty() || state == unfinished)) state = asked;
      waiting = false;
      bool stopped = false;
      for (const auto& text : communicator.exchange(state)) {
        if (!text.empty() && text != unfinished && text != asked) throw ConfigurationRefused(text);
        stopped = stopped || text == asked;
        waiting = waiting || text == unfinished;
      }
      if (stopped) throw train::Stopped();
      if (state.empty()) builder.reset();
    }
    source = data::open_cached(source, split.cache);
  }
}

// What rank 0 says while parameters are filled: a line that is written over on a terminal, one every ten seconds in a
// file.
std::function<void(std::int64_t, std::int64_t)> fill_progress() {
  using Clock = std::chrono::steady_clock;
  const bool terminal = ::isatty(STDERR_FILENO) == 1;
  return [terminal, last = Clock::now()](std::int64_t done, std::int64_t all) mutable {
    if (!terminal && Clock::now() - last < std::chrono::seconds(10)) return;
    last = Clock::now();
    std::fprintf(stderr, "%sfilling parameters: %s of %s%s", terminal ? "\r" : "", thousands(done).c_str(),
                 thousands(all).c_str(), done == all || !terminal ? "\n" : "");
  };
}

void print_start(const setup::Job& job, const train::RunFolder& folder, const setup::Resume& resume) {
  std::printf("%s%s\nrun folder: %s\n", job.model_summary().c_str(), job.mesh.arithmetic().c_str(),
              folder.path().c_str());
  if (resume.reader) {
    std::printf("resuming from %s, behind step %lld of %lld\n", resume.reader->path().c_str(),
                static_cast<long long>(resume.reader->meta().step), static_cast<long long>(job.plan.steps));
  }
  std::fflush(stdout);
}

// What checkpoints are told of the process. CAPSTAN_CRASH_AT=7, for crash tests, ends it at this point of a commit as
// kill -9 would.
train::SaveSetting save_setting(const Environment& env, const setup::Resume& resume) {
  train::SaveSetting setting;
  setting.resume = &resume;
  if (const auto job = env("SLURM_JOB_ID")) setting.attempt = cat(*job, ".", env("SLURM_RESTART_COUNT").value_or("0"));
  if (const auto crash = env("CAPSTAN_CRASH_AT")) {
    setting.at_point = [at = *crash](int point) {
      if (std::to_string(point) == at) ::kill(::getpid(), SIGKILL);
    };
  }
  return setting;
}

// What a rank holds while it trains. Kept outside of train_rank so that a failure can leave it as it is.
struct RankState {
  std::optional<plugin::Host> host;
  std::optional<setup::Job> job;
  std::optional<train::RunFolder> folder;
  setup::Resume resume;
  std::optional<setup::Session> session;
};

// The command line of a job that SLURM started again: rank 0 has looked for its run, and all go on with that.
RunArguments with_restart(RunArguments arguments, const Environment& env, comm::Communicator& communicator) {
  std::string found;
  if (communicator.world().rank == 0) {
    const auto early = read_early(arguments);
    found = join(find_restarted(env, early.run, early.checkpoint, arguments.config), "\n");
  }
  for (auto& override : split(communicator.exchange(found).front(), '\n')) arguments.overrides.push_back(override);
  return arguments;
}

// All that comes before training. Throws train::Stopped on all ranks when one is asked to stop meanwhile; `phase` says
// where.
void load(const RunArguments& arguments, const Environment& env, const Device& device, const train::Stop& stop,
          comm::Communicator& communicator, RankState& state, std::string& phase) {
  const auto& world = communicator.world();
  std::vector<int> everyone(static_cast<std::size_t>(world.size));
  std::iota(everyone.begin(), everyone.end(), 0);
  const train::StopAgreement agreement(communicator.group("loading", everyone, c10::Device(c10::DeviceType::CPU)),
                                       stop);
  phase = "while reading the configuration";
  state.job = prepare_together(with_restart(arguments, env, communicator), device, *state.host, communicator,
                               hub_cache(env));
  agreement.check();
  phase = "while tokenizing";
  build_caches(*state.job, stop, communicator);
  phase = "while loading the model";
  const auto& job = *state.job;
  state.folder.emplace(train::shared_run_folder(job, communicator), world.rank);
  log::configure(state.folder->log_file(), log::Level::warning, world.rank);
  state.folder->write_config(job);
  if (world.rank == 0) note_job(env, state.folder->path());
  const auto show = world.rank == 0 ? fill_progress() : nullptr;
  state.resume = train::resume_run(job, communicator, *state.folder);
  agreement.check();
  const auto progress = [&](std::int64_t done, std::int64_t all) {
    if (show) show(done, all);
    agreement.check();
  };
  state.session = setup::materialise(job, communicator, progress, state.resume.reader.get());
}

int train_rank(const RunArguments& arguments, const Environment& env, const Device& device, RankState& state,
               comm::Communicator& communicator) {
  const bool first = communicator.world().rank == 0;
  auto& stop = ask_on_signals();
  if (first) stop.deadline = job_deadline(env);
  if (device.name == "cuda") check_distinct_gpus(communicator.exchange(device.gpu.identity));
  state.host.emplace(plugin_folders(env), device.name == "cuda");
  StoppedRun stopped;
  try {
    load(arguments, env, device, stop, communicator, state, stopped.when);
    const auto& job = *state.job;
    if (first) print_start(job, *state.folder, state.resume);
    train::Loop loop(job, *state.session, *state.folder, ::isatty(STDOUT_FILENO) == 1, stop,
                     save_setting(env, state.resume));
    const auto ended = loop.run();
    if (first && !loop.model().empty()) std::printf("%s\n", loop.model().c_str());
    if (!loop.stopped()) return static_cast<int>(ExitCode::success);
    stopped.when = cat("after step ", ended.steps);
  } catch (const train::Stopped&) {
    log::debug(cat("stopped ", stopped.when));
  }
  stopped.resumable = state.job->checkpoint->saves();
  stopped.requeue_exit_code = static_cast<int>(state.job->run->requeue_exit_code);
  const auto ending = end_stopped(stopped, stop, communicator);
  if (first) std::fputs(ending.message.c_str(), stderr);
  return ending.exit_code;
}

// The same for work that has no run folder.
int work_rank(const RunArguments& arguments, const Environment& env, const Device& device, RankState& state,
              comm::Communicator& communicator, const RankWork& work) {
  if (device.name == "cuda") check_distinct_gpus(communicator.exchange(device.gpu.identity));
  state.host.emplace(plugin_folders(env), device.name == "cuda");
  state.job = prepare_together(arguments, device, *state.host, communicator, hub_cache(env));
  if (arguments.purpose != setup::Purpose::generate) build_caches(*state.job, communicator);
  log::configure({}, log::Level::warning, communicator.world().rank);
  state.session = setup::materialise(*state.job, communicator);
  return work(*state.job, *state.session);
}

// Ends a rank of a run that failed. Its model is not taken apart: freeing what a hanging collective still uses can
// wait for ever. The goodbye lets rank 0, where the store may be, wait for peers that still read the first error.
[[noreturn]] void end_failed_rank(std::unique_ptr<comm::Communicator> communicator, int code) {
  constexpr unsigned patience_s = 3;
  static std::atomic<int> exit_code{0};
  exit_code = code;
  std::signal(SIGALRM, [](int) { std::_Exit(exit_code.load()); });
  ::alarm(patience_s);
  communicator.reset();
  std::fflush(nullptr);
  std::_Exit(code);
}

using RankMain = std::function<int(const Device&, RankState&, comm::Communicator&)>;

int start(const RunArguments& arguments, const Environment& env, const RankMain& rank_main) {
  // A peer that dies closes its connections; writing to one must be an error to report, not this process's end.
  std::signal(SIGPIPE, SIG_IGN);
  const auto launch = read_launch(env);
  const auto early = read_early(arguments);
  if (arguments.ranks > 1 && launch.world.launcher == "alone") {
    check_enough_gpus(early, arguments.ranks);
    return run_local_ranks(arguments.ranks, {arguments.argv, arguments.argv + arguments.argc}, std::chrono::seconds(10),
                           {static_cast<int>(ExitCode::interrupted), early.stop_code()});
  }
  if (arguments.ranks > 0 && launch.world.launcher != "local" && launch.world.size != arguments.ranks) {
    throw Error(cat("-n ", arguments.ranks, " starts local ranks, but this process is one of ", launch.world.size,
                    " that ", launch.world.launcher, " started"),
                "leave -n away");
  }
  catch_signals(early.stop_code());
  const bool first = launch.world.rank == 0;
  if (first) {
    for (const auto& warning : launch.warnings) log::warning(warning);
  }
  const auto device = open_device(early, launch.world);
  auto communicator = connect_ranks(launch, early, device);
  auto state = std::make_unique<RankState>();
  try {
    return rank_main(device, *state, *communicator);
  } catch (const ConfigurationRefused& refused) {
    if (first) std::fputs(refused.what(), stderr);
    return static_cast<int>(ExitCode::usage);
  } catch (const comm::PeerFailed& failure) {
    log::error(failure.what());
    state.release();  // NOLINT(bugprone-unused-return-value): left as it is, see end_failed_rank
    end_failed_rank(std::move(communicator), static_cast<int>(ExitCode::peer_failed));
  } catch (std::exception& error) {
    communicator->report_failure(error.what());  // its receivers learn the rank beside it
    const auto& world = launch.world;
    auto* own = dynamic_cast<Error*>(&error);
    if (own && world.size > 1) own->add_context(cat("running as rank ", world.rank, " of ", world.size));
    const int code = report_exception(error);
    state.release();  // NOLINT(bugprone-unused-return-value)
    end_failed_rank(std::move(communicator), code);
  }
}

}  // namespace

int run_command(const RunArguments& arguments, const Environment& env) {
  return start(arguments, env, [&](const Device& device, RankState& state, comm::Communicator& communicator) {
    return train_rank(arguments, env, device, state, communicator);
  });
}

int run_ranks(const RunArguments& arguments, const Environment& env, const RankWork& work) {
  return start(arguments, env, [&](const Device& device, RankState& state, comm::Communicator& communicator) {
    return work_rank(arguments, env, device, state, communicator, work);
  });
}

}  // namespace capstan::app
