// The only place that reads the launcher's environment.
#include "launch/launch.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utility>

#include "launch/launch_reader.h"

namespace capstan::launch {
namespace {

constexpr std::size_t least_secret = 16;

std::string host_name() {
  std::array<char, 256> name{};
  if (gethostname(name.data(), name.size()) != 0) return "localhost";
  return name.data();
}

bool from_torchrun(const Reader& env) {
  return env.has("TORCHELASTIC_RUN_ID") || (env.has("GROUP_RANK") && env.has("LOCAL_WORLD_SIZE"));
}

void read_torchrun(const Reader& env, Launch& launch) {
  World& world = launch.world;
  world.launcher = "torchrun";
  world.rank = env.number("RANK");
  world.size = env.number("WORLD_SIZE");
  world.local_rank = env.number("LOCAL_RANK");
  world.local_size = env.number("LOCAL_WORLD_SIZE");
  world.node = env.number("GROUP_RANK", 0);
  world.nodes = env.number("GROUP_WORLD_SIZE", world.local_size > 0 ? world.size / world.local_size : 1);
  check_world(world, "RANK", "WORLD_SIZE");
  read_master(env, launch);
  if (launch.host.empty()) {
    throw Error("torchrun's RANK is set, but MASTER_ADDR and MASTER_PORT are not",
                "start with torchrun, or unset RANK, WORLD_SIZE, LOCAL_RANK and TORCHELASTIC_RUN_ID to run without it");
  }
  launch.store_exists = env.text("TORCHELASTIC_USE_AGENT_STORE") == "True";
  launch.key = cat(env.has("TORCHELASTIC_RUN_ID") ? env.text("TORCHELASTIC_RUN_ID") : "torchrun", ".",
                   env.number("TORCHELASTIC_RESTART_COUNT", 0));
}

void read_mpi(const Reader& env, Launch& launch) {
  World& world = launch.world;
  world.launcher = "mpi";
  world.rank = env.number("OMPI_COMM_WORLD_RANK");
  world.size = env.number("OMPI_COMM_WORLD_SIZE");
  world.local_rank = env.number("OMPI_COMM_WORLD_LOCAL_RANK", 0);
  world.local_size = env.number("OMPI_COMM_WORLD_LOCAL_SIZE", world.size);
  world.node = world.local_size > 0 ? (world.rank - world.local_rank) / world.local_size : 0;
  world.nodes = world.local_size > 0 ? (world.size + world.local_size - 1) / world.local_size : 1;
  check_world(world, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE");
  read_master(env, launch);
  for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "SLURM_JOB_ID"}) {
    if (!env.has(name)) continue;
    launch.key = env.text(name);
    return;
  }
  if (launch.host.empty()) {
    throw Error("mpirun gives this run no name, so its ranks cannot find each other through a file",
                "export MASTER_ADDR and MASTER_PORT (mpirun -x MASTER_ADDR=… -x MASTER_PORT=…)");
  }
}

void read_local(const Reader& env, Launch& launch) {
  World& world = launch.world;
  world.launcher = "local";
  world.rank = world.local_rank = env.number("CAPSTAN_RANK");
  world.size = world.local_size = env.number("CAPSTAN_WORLD_SIZE");
  check_world(world, "CAPSTAN_RANK", "CAPSTAN_WORLD_SIZE");
  const std::string where = env.text("CAPSTAN_RENDEZVOUS");  // "127.0.0.1:43121", in the process that started us
  const auto colon = where.rfind(':');
  launch.port = colon == std::string::npos ? 0 : std::atoi(where.c_str() + colon + 1);
  if (launch.port == 0) {
    throw Error(cat("CAPSTAN_RANK is set but CAPSTAN_RENDEZVOUS is '", where, "'"),
                "these variables belong to capstan run -n: unset CAPSTAN_RANK");
  }
  launch.host = where.substr(0, colon);
  launch.store_exists = true;
  launch.key = "local";
  launch.hosts.assign(static_cast<std::size_t>(world.size), world.host);
}

/// A step of srun's, and not the batch script or the shell of an allocation, whose "steps" have reserved numbers.
bool from_srun(const Reader& env) {
  return env.has("SLURM_STEP_ID") && env.has("SLURM_PROCID") &&
         std::atoll(env.text("SLURM_STEP_ID").c_str()) < 4294967290;
}

// PyTorch's variables, but not from torchrun: a rank that knew no others would train all of it by itself. Without an
// address they may be what an old shell has left.
void judge_ranks_by_hand(const Reader& env, Launch& launch) {
  if (!env.has("RANK") || !env.has("WORLD_SIZE") || env.text("WORLD_SIZE") == "1") return;
  if (!env.has("MASTER_ADDR")) {
    launch.warnings.push_back(cat("running as a single rank: RANK=", env.text("RANK"), " and WORLD_SIZE=",
                                  env.text("WORLD_SIZE"), " are set, but by no launcher that Capstan knows"));
    return;
  }
  throw Error(cat("RANK=", env.text("RANK"), ", WORLD_SIZE=", env.text("WORLD_SIZE"),
                  " and MASTER_ADDR are set, but by no launcher that Capstan knows"),
              "start the ranks with srun, torchrun, mpirun or capstan run -n N; to run a single rank, unset RANK and "
              "WORLD_SIZE");
}

void read_alone(const Reader& env, Launch& launch) {
  judge_ranks_by_hand(env, launch);
  if (env.has("SLURM_JOB_ID")) {
    const std::string tasks = env.has("SLURM_NTASKS") ? env.text("SLURM_NTASKS") : "several";
    launch.warnings.push_back(cat("running as a single rank inside SLURM job ", env.text("SLURM_JOB_ID"),
                                  ", which has ", tasks,
                                  " task(s): write srun before the command to start one rank each"));
  }
}

}  // namespace

void check_world(const World& world, const std::string& rank_name, const std::string& size_name) {
  if (world.size < 1 || world.rank >= world.size) {
    throw Error(cat(rank_name, "=", world.rank, " and ", size_name, "=", world.size, " contradict each other"),
                "start the program through its launcher");
  }
}

void read_master(const Reader& env, Launch& launch) {
  const bool address = env.has("MASTER_ADDR");
  const bool port = env.has("MASTER_PORT");
  if (address != port) {
    throw Error(address ? "MASTER_ADDR is set but MASTER_PORT is not" : "MASTER_PORT is set but MASTER_ADDR is not",
                "set both, or none: Capstan then finds a free port and publishes it itself");
  }
  if (!address) return;
  launch.host = env.text("MASTER_ADDR");
  launch.port = env.number("MASTER_PORT");
  if (launch.port < 1 || launch.port > 65535) {
    throw Error(cat("MASTER_PORT is ", launch.port, ", not a port"), "use 1024 to 65535");
  }
}

Environment process_environment() {
  return [](const std::string& name) -> std::optional<std::string> {
    const char* value = std::getenv(name.c_str());  // NOLINT(concurrency-mt-unsafe): before any thread is started
    if (value == nullptr) return std::nullopt;
    return value;
  };
}

Environment environment(std::map<std::string, std::string> variables) {
  return [variables = std::move(variables)](const std::string& name) -> std::optional<std::string> {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
  };
}

Launch read_launch(const Environment& env) {
  const Reader reader(env);
  Launch launch;
  launch.world.host = host_name();
  launch.in_slurm = reader.has("SLURM_JOB_ID");
  launch.user.home = reader.text("HOME");
  launch.user.secret = reader.text("CAPSTAN_SECRET");
  if (reader.has("CAPSTAN_SECRET") && launch.user.secret.size() < least_secret) {
    throw Error(cat("CAPSTAN_SECRET has ", launch.user.secret.size(), " characters, and could be guessed"),
                "export CAPSTAN_SECRET=$(openssl rand -hex 16), or unset it: rank 0 then makes one");
  }
  if (from_torchrun(reader)) {
    read_torchrun(reader, launch);
  } else if (reader.has("CAPSTAN_LOCAL_SIZE") && from_srun(reader)) {
    read_srun(reader, launch, /*spawned=*/true);
  } else if (reader.has("CAPSTAN_RANK")) {
    read_local(reader, launch);
  } else if (reader.has("OMPI_COMM_WORLD_RANK")) {
    read_mpi(reader, launch);  // before srun: mpirun starts its daemons through srun, and ranks inherit their variables
  } else if (from_srun(reader)) {
    read_srun(reader, launch, /*spawned=*/false);
  } else {
    read_alone(reader, launch);
  }
  return launch;
}

std::string Rendezvous::text() const { return host.empty() ? file : cat(host, ":", port); }

Rendezvous Launch::rendezvous(const std::filesystem::path& folder) const {
  Rendezvous where;
  where.host = host;
  where.port = port;
  where.store_exists = store_exists;
  if (host.empty()) where.ports = ports;  // MASTER_PORT is where the others look
  where.prefix = cat("capstan/", key);
  if (host.empty()) where.file = (folder / cat("rendezvous-", key)).string();
  where.secret = user.secret;
  where.is_torch = store_exists && world.launcher == "torchrun";
  if (where.secret.empty() && !store_exists) {
    auto name = cat("secret-", key);
    std::replace(name.begin(), name.end(), '/', '_');
    where.secret_file = (folder / name).string();
  }
  return where;
}

}  // namespace capstan::launch
