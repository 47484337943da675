#pragma once
#include <capstan/base/export.h>

#include <filesystem>
#include <string>
#include <vector>

#include "launch/launch.h"

CAPSTAN_BEGIN_NAMESPACE
namespace launch {

/// The CPUs that this process may run on, by number (its affinity mask).
std::vector<int> own_cpus();

/// CPUs that the process's control group (v2 or v1; containers and SLURM set them) lets it use at a time, rounded up; 0
/// if it sets no limit. `root` is the folder that contains proc and sys.
int cpu_quota(const std::filesystem::path& root = "/");

/// A rank's part of its node's CPUs.
struct CpuShare {
  int threads = 1;       ///< for ATen
  bool crowded = false;  ///< the ranks that run on these CPUs have more threads than there are CPUs
  std::string mask;      ///< "0-7,16-23"
  std::string nodes;     ///< the NUMA nodes of the mask: "0", "0-1"; "" if unknown
  std::vector<std::string> warnings;
};

/// This rank's share: OMP_NUM_THREADS if it is set; else the minimum of the mask's CPUs, the control group's quota and
/// SLURM_CPUS_PER_TASK; a mask that the ranks of a node share is divided among them. Throws
/// Error for an OMP_NUM_THREADS that is no number.
CpuShare cpu_share(const Environment& env, const Launch& launch, const std::vector<int>& cpus, int quota,
                   const std::filesystem::path& root = "/");

/// Where ranks are crowded: threads of OpenMP that wait for others sleep instead of spinning on a CPU that those need
/// (OMP_WAIT_POLICY, unless the user has set it or GOMP_SPINCOUNT). To be called before LibTorch, and so OpenMP, is
/// opened, and before any thread is started. What is wrong with the environment is said by the rank that starts.
void calm_waiting_threads(const Environment& env);

/// A warning if optimizer state is offloaded to the host and too few threads update it; else "".
std::string offload_warning(const Launch& launch, int threads);

/// {0, 1, 2, 7} -> "0-2,7".
std::string cpu_list(const std::vector<int>& cpus);

}  // namespace launch
CAPSTAN_END_NAMESPACE
