#include "launch/cpu_share.h"

#include <capstan/base/counted.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>

namespace capstan::launch {
namespace {

namespace fs = std::filesystem;

// AdamW over host memory gains from more threads up to about ten (tools/benchmarks); below this the GPU waits for most
// of each step.
constexpr int enough_for_offload = 4;

std::optional<double> ratio(const std::string& quota, double period) {
  char* end = nullptr;
  const double most = std::strtod(quota.c_str(), &end);
  if (end == quota.c_str() || most <= 0 || period <= 0) return {};  // "max", -1
  return most / period;
}

std::optional<double> quota_of(const fs::path& folder) {
  std::string quota;
  double period = 0;
  if (std::ifstream in(folder / "cpu.max"); in >> quota >> period) return ratio(quota, period);
  std::ifstream most(folder / "cpu.cfs_quota_us");
  std::ifstream each(folder / "cpu.cfs_period_us");
  if (most >> quota && each >> period) return ratio(quota, period);
  return {};
}

/// The minimum of a group and its ancestors.
std::optional<double> quota_above(const fs::path& top, const std::string& path) {
  std::optional<double> least;
  auto folder = (top / path.substr(std::min<std::size_t>(1, path.size()))).lexically_normal();
  for (std::size_t depth = 0; depth < 32; ++depth) {
    if (const auto quota = quota_of(folder)) least = std::min(least.value_or(*quota), *quota);
    if (folder == top.lexically_normal() || !folder.has_relative_path()) break;
    folder = folder.parent_path();
  }
  return least;
}

std::string numa_nodes(const std::vector<int>& cpus, const fs::path& root) {
  std::vector<int> nodes;
  for (int node = 0;; ++node) {
    std::ifstream in(root / "sys/devices/system/node" / cat("node", node) / "cpulist");
    std::string text;
    if (!(in >> text)) break;
    const auto of_node = expand_ranges(text);
    const auto has = [&](int cpu) { return std::find(of_node.begin(), of_node.end(), cpu) != of_node.end(); };
    if (std::any_of(cpus.begin(), cpus.end(), has)) nodes.push_back(node);
  }
  return cpu_list(nodes);
}

/// OMP_NUM_THREADS; if it is a list, its first number is used.
std::optional<int> asked_threads(const Environment& env) {
  const auto text = env("OMP_NUM_THREADS");
  if (!text || text->empty()) return std::nullopt;
  int number = 0;
  const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), number);
  const bool whole = end == text->data() + text->size() || *end == ',';
  constexpr int most = 65536;
  if (error == std::errc() && number > most && whole)
    throw Error(cat("OMP_NUM_THREADS is ", *text, ", more than ", most), "give each rank its cores, or unset it");
  if (error == std::errc() && number > 0 && whole) return number;
  throw Error(cat("OMP_NUM_THREADS is '", *text, "', not a number of threads"),
              "give a number, or unset it: Capstan then takes what the allocation gives");
}

/// Whether the ranks of the node run on the same CPUs, as without binding.
bool shared_mask(const Launch& launch, int cpus, const fs::path& root) {
  if (launch.world.local_size < 2) return false;
  if (launch.slurm && launch.slurm->cpus_on_node > 0) return cpus >= launch.slurm->cpus_on_node;
  std::ifstream in(root / "sys/devices/system/cpu/online");
  std::string text;
  return in >> text && cpus >= static_cast<int>(expand_ranges(text).size());
}

}  // namespace

std::vector<int> own_cpus() {
  constexpr int most = 8192;
  const std::unique_ptr<cpu_set_t, void (*)(cpu_set_t*)> set(CPU_ALLOC(most), [](cpu_set_t* old) { CPU_FREE(old); });
  const std::size_t size = CPU_ALLOC_SIZE(most);
  std::vector<int> cpus;
  if (sched_getaffinity(0, size, set.get()) != 0) return {0};
  for (int cpu = 0; cpu < most; ++cpu) {
    if (CPU_ISSET_S(static_cast<std::size_t>(cpu), size, set.get())) cpus.push_back(cpu);
  }
  return cpus;
}

int cpu_quota(const fs::path& root) {
  std::optional<double> least;
  std::ifstream in(root / "proc/self/cgroup");
  std::string line;
  while (std::getline(in, line)) {
    const auto cells = split(line, ':');
    if (cells.size() < 3) continue;
    std::optional<double> quota;
    if (cells[1].empty()) quota = quota_above(root / "sys/fs/cgroup", cells[2]);
    if (cells[1] == "cpu" || cells[1] == "cpu,cpuacct") quota = quota_above(root / "sys/fs/cgroup/cpu", cells[2]);
    if (quota) least = std::min(least.value_or(*quota), *quota);
  }
  return least ? std::max(1, static_cast<int>(std::ceil(*least))) : 0;
}

std::string cpu_list(const std::vector<int>& cpus) {
  std::vector<std::string> parts;
  for (std::size_t from = 0; from < cpus.size();) {
    std::size_t to = from;
    while (to + 1 < cpus.size() && cpus[to + 1] == cpus[to] + 1) ++to;
    parts.push_back(to == from ? cat(cpus[from]) : cat(cpus[from], "-", cpus[to]));
    from = to + 1;
  }
  return join(parts, ",");
}

CpuShare cpu_share(const Environment& env, const Launch& launch, const std::vector<int>& cpus, int quota,
                   const fs::path& root) {
  CpuShare share;
  share.mask = cpu_list(cpus);
  share.nodes = numa_nodes(cpus, root);
  const int own = std::max<int>(1, static_cast<int>(cpus.size()));
  int have = quota > 0 ? std::min(own, quota) : own;
  const int per_task = launch.slurm ? launch.slurm->cpus_per_task : 0;
  if (per_task > have && launch.world.launcher == "srun") {
    share.warnings.push_back(cat("the job asks for ", per_task, " CPUs a task, but a rank has ", have,
                                 ": since SLURM 22.05 srun does not take --cpus-per-task over from sbatch; export "
                                 "SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK before srun"));
  }
  if (per_task > 0) {
    have = std::min(have, per_task);
  } else if (shared_mask(launch, own, root)) {
    have = std::max(1, have / launch.world.local_size);
  }
  share.threads = asked_threads(env).value_or(have);
  // Ranks that `capstan run -n` started have its mask, whatever part of the machine that is.
  const bool is_shared = launch.world.launcher == "local" || launch.spawned || shared_mask(launch, own, root);
  share.crowded = share.threads * (is_shared ? launch.world.local_size : 1) > (quota > 0 ? std::min(own, quota) : own);
  return share;
}

void calm_waiting_threads(const Environment& env) {
  if (env("OMP_WAIT_POLICY") || env("GOMP_SPINCOUNT")) return;
  try {
    if (!cpu_share(env, read_launch(env), own_cpus(), cpu_quota()).crowded) return;
  } catch (const Error&) {
    return;
  }
  ::setenv("OMP_WAIT_POLICY", "PASSIVE", 0);  // NOLINT(concurrency-mt-unsafe): see above
}

std::string offload_warning(const Launch& launch, int threads) {
  if (threads >= enough_for_offload) return {};
  const std::string fix = launch.slurm ? "write #SBATCH --cpus-per-task=8 or more (and export SRUN_CPUS_PER_TASK=8)"
                                       : "give each rank more CPUs, or set OMP_NUM_THREADS";
  return cat("the offloaded optimizer updates its state with ", counted(threads, "CPU thread"),
             " a rank, which will take most of each step: ", fix);
}

}  // namespace capstan::launch
