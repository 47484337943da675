// A step's tasks and nodes, from SLURM's variables.
#include <algorithm>
#include <cstdlib>

#include "launch/launch_reader.h"

namespace capstan::launch {
namespace {

/// "2(x3),1" -> 2 2 2 1: tasks of each node as SLURM writes them.
std::vector<int> expand_tasks(const std::string& list) {
  std::vector<int> tasks;
  for (const std::string& part : split(list, ',')) {
    const auto open = part.find("(x");
    const int nodes = open == std::string::npos ? 1 : std::atoi(part.substr(open + 2).c_str());
    tasks.insert(tasks.end(), static_cast<std::size_t>(std::max(nodes, 0)), std::atoi(part.substr(0, open).c_str()));
  }
  return tasks;
}

std::string first_of(const Reader& env, std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (env.has(name)) return env.text(name);
  }
  return {};
}

/// The host of each rank: SLURM fills node after node, or deals tasks out with --distribution=cyclic.
std::vector<std::string> hosts_of_ranks(const Launch& launch, bool cyclic) {
  std::vector<std::string> hosts;
  if (launch.nodes.size() != launch.tasks.size()) return hosts;
  const int most = launch.tasks.empty() ? 0 : *std::max_element(launch.tasks.begin(), launch.tasks.end());
  for (int round = 0; cyclic && round < most; ++round) {
    for (std::size_t node = 0; node < launch.nodes.size(); ++node) {
      if (round < launch.tasks[node]) hosts.push_back(launch.nodes[node]);
    }
  }
  for (std::size_t node = 0; !cyclic && node < launch.nodes.size(); ++node) {
    hosts.insert(hosts.end(), static_cast<std::size_t>(launch.tasks[node]), launch.nodes[node]);
  }
  return hosts;
}

Allocation read_allocation(const Reader& env) {
  Allocation slurm;
  slurm.gpus_on_node = env.number("SLURM_GPUS_ON_NODE", 0);
  slurm.cpus_on_node = env.number("SLURM_CPUS_ON_NODE", 0);
  slurm.cpus_per_task = env.number("SLURM_CPUS_PER_TASK", 0);
  slurm.gpus_per_task = env.has("SLURM_GPUS_PER_TASK");
  return slurm;
}

void warn_of_stale(const Reader& env, Launch& launch) {
  const auto stale = env.present({"RANK", "WORLD_SIZE", "LOCAL_RANK"});
  if (stale.empty()) return;
  launch.warnings.push_back(cat(join(stale), stale.size() == 1 ? " is" : " are",
                                " set but srun started this program: ignored (remove the export from the job script)"));
}

/// Ranks that one srun task per node has started: they are numbered node after node.
void read_spawned(const Reader& env, Launch& launch) {
  World& world = launch.world;
  launch.spawned = true;
  if (env.has("CAPSTAN_LOCAL_FAILURE")) launch.failure_note = env.number("CAPSTAN_LOCAL_FAILURE");
  world.local_rank = env.number("CAPSTAN_LOCAL_RANK");
  world.local_size = env.number("CAPSTAN_LOCAL_SIZE");
  world.size = world.nodes * world.local_size;
  world.rank = world.node * world.local_size + world.local_rank;
  check_world(world, "CAPSTAN_LOCAL_RANK", "CAPSTAN_LOCAL_SIZE");
  launch.tasks.assign(launch.tasks.size(), world.local_size);
  launch.slurm->cpus_per_task = 0;  // the task's are all its ranks'
  launch.slurm->cpus_on_node = 0;
}

}  // namespace

void read_srun(const Reader& env, Launch& launch, bool spawned) {
  World& world = launch.world;
  world.launcher = "srun";
  world.rank = env.number("SLURM_PROCID");
  world.size = env.number("SLURM_STEP_NUM_TASKS", env.number("SLURM_NTASKS", 1));
  world.local_rank = env.number("SLURM_LOCALID");
  world.node = env.number("SLURM_NODEID", 0);
  world.nodes = env.number("SLURM_STEP_NUM_NODES", env.number("SLURM_NNODES", 1));
  check_world(world, "SLURM_PROCID", "SLURM_NTASKS");
  const auto nodes = first_of(env, {"SLURM_STEP_NODELIST", "SLURM_NODELIST", "SLURM_JOB_NODELIST"});
  if (!nodes.empty()) launch.nodes = expand_hostlist(nodes);
  const auto node = static_cast<std::size_t>(world.node);
  if (node < launch.nodes.size()) world.host = launch.nodes[node];
  launch.tasks = expand_tasks(first_of(env, {"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}));
  const int here = node < launch.tasks.size() ? launch.tasks[node] : 0;
  world.local_size = here > 0 ? here : (world.nodes > 0 ? (world.size + world.nodes - 1) / world.nodes : world.size);
  launch.slurm = read_allocation(env);
  launch.ports = expand_ranges(env.text("SLURM_STEP_RESV_PORTS"));
  std::erase_if(launch.ports, [](int port) { return port < 1; });
  launch.key = cat(env.text("SLURM_JOB_ID"), ".", env.text("SLURM_STEP_ID"), ".", env.number("SLURM_RESTART_COUNT", 0));
  if (spawned) {
    read_spawned(env, launch);
  } else {
    warn_of_stale(env, launch);
  }
  launch.hosts = hosts_of_ranks(launch, env.text("SLURM_DISTRIBUTION").starts_with("cyclic"));
  read_master(env, launch);
}

void check_tasks(const Launch& launch) {
  if (launch.world.launcher != "srun" || launch.tasks.empty()) return;
  const auto [least, most] = std::minmax_element(launch.tasks.begin(), launch.tasks.end());
  if (*least == *most) return;
  std::vector<std::string> numbers;
  for (const int tasks : launch.tasks) numbers.push_back(cat(tasks));
  const int nodes = static_cast<int>(launch.tasks.size());
  const int gpus = launch.slurm ? launch.slurm->gpus_on_node : 0;
  const int even = launch.world.size % nodes == 0 ? launch.world.size / nodes : *most;  // SLURM may fill a node first
  throw Error(
      cat("srun started ", join(numbers, " + "), " = ", launch.world.size, " tasks on ", nodes,
          " nodes: each node must have the same number of ranks"),
      cat("write #SBATCH --ntasks-per-node=", gpus > 0 ? gpus : even, " instead of --ntasks=", launch.world.size));
}

std::vector<std::string> check_gpus(const Launch& launch, int visible) {
  const World& world = launch.world;
  if (world.launcher != "srun" || visible < 1) return {};
  std::vector<std::string> warnings;
  if (world.local_size == 1 && visible > 1) {
    throw Error(cat("node ", world.host, " has one task but ", visible, " GPUs, and each rank uses one"),
                cat("write #SBATCH --ntasks-per-node=", visible,
                    ", or let each task start the rest: srun capstan run --spawn-local (to use one GPU on purpose, "
                    "export CUDA_VISIBLE_DEVICES=0)"));
  }
  const Allocation slurm = launch.slurm.value_or(Allocation{});
  if (visible == 1 && world.local_size > 1) {
    warnings.push_back(cat("each rank sees one GPU only", slurm.gpus_per_task ? " (--gpus-per-task)" : "",
                           ", so NCCL cannot use NVLink between them: write #SBATCH --gpus-per-node=", world.local_size,
                           " instead of --gpus-per-task"));
  }
  const int have = std::max(slurm.gpus_on_node, visible);
  const int idle = have - world.local_size;
  if (idle > 0) {
    warnings.push_back(cat("each node has ", have, " GPUs and uses ", world.local_size, ": ", idle,
                           idle == 1 ? " is" : " are", " idle; write #SBATCH --ntasks-per-node=", have,
                           " to use all, or #SBATCH --gpus-per-node=", world.local_size, " to leave them to others"));
  }
  return warnings;
}

}  // namespace capstan::launch
