#include "ranks/start.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>

#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <thread>
#include <utility>

#include "config/document.h"
#include "launch/error_report.h"
#include "launch/limits.h"
#include "launch/lost_file.h"
#include "peers/local_ranks.h"
#include "peers/peers.h"
#include "ranks/rank_table.h"
#include "ranks/shared_folders.h"
#include "ranks/stopping.h"
#include "ranks/torch_words.h"

namespace capstan::ranks {
namespace {

std::chrono::milliseconds milliseconds(double seconds) {
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

/// How many ranks to start on this host: as many as asked for, or one a GPU. GPUs that are missing are reported once,
/// in words, instead of on each rank.
int ranks_to_start(const Early& early, int asked) {
  const auto gpus = early.run.device == "cpu" ? 0 : static_cast<int>(gpus::ask_driver().gpus.size());
  if (asked == 0 && gpus == 0)
    throw Error("--spawn-local starts one rank a GPU, and this machine shows none", "say how many: -n 4");
  if (gpus > 0 && asked > gpus) {  // without any, the ranks report the error
    throw Error(cat("-n ", asked, " asks for ", counted(asked, "rank"), ", one GPU each, but this machine shows ",
                    counted(gpus, "GPU")),
                cat("use -n ", gpus, ", or set run.device=cpu"));
  }
  return asked > 0 ? asked : gpus;
}

void set_variable(const std::string& name, const std::string& value) {
  ::setenv(name.c_str(), value.c_str(), 0);  // NOLINT(concurrency-mt-unsafe): before any thread is started
}

/// Decides this rank's device and opens it, before ATen is used for the first time. "auto" is cuda if the driver shows
/// a GPU.
Device open_device(const launch::Launch& launch, const Early& early, const std::string& cache,
                   const launch::Environment& env) {
  const bool wants_gpu = early.run.device == "cuda" || (early.run.device == "auto" && !gpus::ask_driver().gpus.empty());
  if (!wants_gpu) {
    // LibTorch's profiler asks for GPUs even when a CPU rank's trace is written, and calls it an error that there are
    // none; above its highest level it says nothing. Whether a trace was written is seen by the file.
    set_variable("KINETO_LOG_LEVEL", "5");
    return {};
  }
  // What cuBLAS needs to be deterministic; read when CUDA starts.
  if (early.run.deterministic) set_variable("CUBLAS_WORKSPACE_CONFIG", ":4096:8");
  if (!cache.empty()) set_variable("CUDA_CACHE_PATH", (std::filesystem::path(cache) / "cuda").string());
  return open_gpu(launch, early.precision, env("LD_LIBRARY_PATH").value_or(""));
}

comm::ConnectOptions connect_options(const launch::Launch& launch, const Early& early, const CommSettings& settings) {
  comm::ConnectOptions options;
  options.world = launch.world;
  options.rendezvous = launch.rendezvous(early.run.dir);
  options.interface = settings.interface;
  options.hosts = launch.hosts;
  options.deterministic = early.run.deterministic;
  options.failure_note = launch.failure_note;
  options.connect_timeout = milliseconds(early.comm.connect_timeout_s);
  options.timeout = milliseconds(early.comm.timeout_s);
  options.silence = milliseconds(early.comm.silence_s);
  options.on_stuck = [](const std::string&) {  // it is printed already
    std::_Exit(static_cast<int>(ExitCode::peer_failed));
  };
  return options;
}

void say_warnings(const Rank& rank) {
  if (!rank.first()) return;
  for (const auto* list :
       {&rank.launch.warnings, &rank.device.warnings, &rank.cpus.warnings, &rank.settings.warnings}) {
    for (const auto& warning : *list) log::warning(warning);
  }
  const auto& run = rank.early.run;
  const auto home = rank.launch.in_slurm ? rank.launch.user.home : "";
  for (const auto& warning : folder_warnings(run.dir, run.cache.value_or(rank.cache), home)) log::warning(warning);
}

// What this rank was doing when another failed. comm reports the first error itself.
void say_where(const comm::PeerFailed& failure, const Rank& rank) {
  const int own = rank.launch.world.rank;
  log::debug(failure.what());
  if (own != (peers::Failure{failure.rank(), {}, {}}.teller())) return;
  for (const auto& context : failure.context()) log::error(cat("rank ", own, " ended while ", context));
}

// Ends a rank of a failed run. Its model is not destroyed: freeing memory that a hanging collective still uses can
// wait forever. The goodbye lets rank 0, which may run the store, wait for peers that still read the first error.
[[noreturn]] void end_failed_rank(std::unique_ptr<comm::Communicator> communicator, int code) {
  static constexpr std::chrono::seconds patience{3};
  std::thread([code] {
    std::this_thread::sleep_for(patience);
    std::_Exit(code);
  }).detach();
  communicator.reset();
  std::fflush(nullptr);
  std::_Exit(code);
}

void prepare(Rank& rank, const launch::Environment& env) {
  launch::check_tasks(rank.launch);
  const int ranks = rank.launch.world.size;
  launch::need_open_files(launch::files_of_rank(ranks), ranks > 1 ? cat("a rank of ", ranks) : "a run");
  for (const auto& [name, value] : rank.settings.set) set_variable(name, value);
  rank.device = open_device(rank.launch, rank.early, rank.early.run.cache.value_or(rank.cache), env);
  rank.cpus = launch::cpu_share(env, rank.launch, launch::own_cpus(), launch::cpu_quota());
  at::set_num_threads(rank.cpus.threads);
}

Early read_early(const launch::RunArguments& arguments) {
  Early early;
  try {
    Diagnostics ignored;
    const auto document = config::load(arguments.config, arguments.overrides, ignored);
    early.run = *config::Options<setup::RunOptions>(document.section("run"), ignored);
    early.comm = *config::Options<setup::CommOptions>(document.section("comm"), ignored);
    early.checkpoint = *config::Options<setup::CheckpointOptions>(document.section("checkpoint"), ignored);
    early.precision = config::Options<setup::TrainOptions>(document.section("train"), ignored)->precision;
  } catch (const Error&) {
    log::debug("the configuration cannot be read before connecting");
  }
  return early;
}

/// If this process only starts ranks: starts them and returns their exit code. That is -n outside of any launcher, or
/// --spawn-local in the only task that srun started on its node, by default one rank per GPU. Throws Error if that
/// makes no sense. Returns nothing in a process that is a rank itself.
std::optional<int> start_local_ranks(const launch::Launch& launch, const Early& early,
                                     const launch::RunArguments& start) {
  const comm::World& world = launch.world;
  const bool started = world.launcher == "local" || launch.spawned;
  if (started) return std::nullopt;
  const bool alone = world.launcher == "alone";
  if (start.spawn_local && !alone && (world.launcher != "srun" || world.local_size != 1)) {
    throw Error(cat("--spawn-local starts the ranks of a node, but ", world.launcher, " has started ", world.local_size,
                    " on ", world.host),
                "leave --spawn-local out, or write #SBATCH --ntasks-per-node=1");
  }
  if (start.spawn_local || (alone && start.ranks > 1)) {
    const int ranks = ranks_to_start(early, start.ranks);
    const int nodes = alone ? 1 : static_cast<int>(std::max<std::size_t>(1, launch.nodes.size()));
    // The ranks have this process's limit of open files: said once, before any is started.
    launch::need_open_files(std::max(launch::files_of_starter(ranks), launch::files_of_rank(ranks * nodes)),
                            cat("the start of ", ranks, " ranks"));
    peers::LocalStart local;
    local.ranks = ranks;
    local.arguments = start.command_line;
    local.environment = all_variables();
    local.orderly = {static_cast<int>(ExitCode::interrupted), early.stop_code()};
    if (!alone) local.step = peers::StepTask{world.node * ranks, world.host};
    return peers::run_local_ranks(local);
  }
  if (start.ranks > 0 && world.size != start.ranks) {
    throw Error(cat("-n ", start.ranks, " starts local ranks, but this process is one of ", world.size, " that ",
                    world.launcher, " started"),
                world.launcher == "srun" && world.local_size == 1
                    ? "leave -n out, or add --spawn-local for that many ranks on each node"
                    : "leave -n out");
  }
  return std::nullopt;
}

/// Opens the device, sets ATen's threads and NCCL's environment variables, and connects to the peers. A rank that
/// fails before it has connected tells the others, whose start_rank() then throws PeerFailed.
Rank start_rank(const launch::Launch& launch, const Early& early, const launch::Environment& env) {
  Rank rank;
  rank.phases->end("engine");
  rank.launch = launch;
  rank.early = early;
  rank.settings = comm_settings(early.comm, all_variables());
  rank.cache = env("CAPSTAN_CACHE").value_or("");
  auto options = connect_options(launch, early, rank.settings);
  try {
    prepare(rank, env);
  } catch (const Error& error) {
    peers::report_early_failure(options, error.what());
    throw;
  }
  rank.phases->end("device");
  say_warnings(rank);
  options.nccl = rank.device.nccl;
  rank.communicator = comm::connect(options);
  rank.rows = meet_all(rank);
  rank.phases->end("ranks");
  return rank;
}

}  // namespace

int Early::stop_code() const {
  return checkpoint.saves() ? static_cast<int>(run.requeue_exit_code) : static_cast<int>(ExitCode::interrupted);
}

int run_as_rank(const launch::RunArguments& arguments, const launch::Environment& env,
                const std::function<int(Rank&)>& body) {
  // A peer that dies closes its connections; writing to one must be an error to report, not this process's end.
  std::signal(SIGPIPE, SIG_IGN);
  // The same for a file that has grown to the limit of ulimit -f.
  std::signal(SIGXFSZ, SIG_IGN);
  const auto launch = launch::read_launch(env);
  const auto early = read_early(arguments);
  if (const auto code = start_local_ranks(launch, early, arguments)) return *code;
  catch_signals(early.stop_code());
  Rank rank;
  try {
    rank = start_rank(launch, early, env);
  } catch (const comm::PeerFailed& failure) {
    log::error(failure.what());
    return static_cast<int>(ExitCode::peer_failed);
  }
  launch::tell_of_lost_files([&rank](const std::string& error) {
    if (rank.communicator) rank.communicator->report_failure(error);
  });
  try {
    const int code = body(rank);
    launch::tell_of_lost_files({});
    return code;
  } catch (const comm::PeerFailed& failure) {
    say_where(failure, rank);
    end_failed_rank(std::move(rank.communicator), static_cast<int>(ExitCode::peer_failed));
  } catch (std::exception& thrown) {
    auto known = in_words(thrown);
    std::exception& error = known ? *known : thrown;
    rank.communicator->report_failure(error.what());  // the rank is sent along with it
    const auto& world = launch.world;
    auto* own = dynamic_cast<Error*>(&error);
    if (own && world.size > 1) own->add_context(cat("running as rank ", world.rank, " of ", world.size));
    const int code = launch::report_exception(error);
    end_failed_rank(std::move(rank.communicator), code);
  }
}

}  // namespace capstan::ranks
