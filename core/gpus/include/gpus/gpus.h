#pragma once
#include <capstan/base/export.h>
#include <capstan/launch/world.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace gpus {

/// What NVIDIA's driver reports, without loading anything of CUDA but the driver's own library.
struct GpuFacts {
  struct Gpu {
    int major = 0;  ///< compute capability
    int minor = 0;
    std::string uuid;
    std::string name;        ///< "NVIDIA H200"
    std::string pci;         ///< "0000:3b:00.0"
    std::int64_t bytes = 0;  ///< bytes of memory
  };
  bool driver = false;         ///< libcuda.so.1 exists and works
  std::string driver_problem;  ///< why not
  int driver_version = 0;      ///< the newest CUDA that it can run: 13000 is 13.0
  std::vector<Gpu> gpus;       ///< visible to this process
};
GpuFacts ask_driver();

/// The GPU that this rank uses, as an index into facts.gpus: its local rank, or the only one if the launcher shows each
/// rank its own. Throws Error for a driver or GPU too old for LibTorch's CUDA (`cuda_major`), and for a rank
/// without a GPU, with the line of the job script to change.
int choose_gpu(const GpuFacts& facts, const launch::World& world, int cuda_major);

/// Throws Error if the GPU cannot compute in `precision`: bf16 needs compute capability 8.0.
void check_precision(const GpuFacts::Gpu& gpu, const std::string& precision, const launch::World& world);

/// "3 NVIDIA H200 GPU-1b2f… NUMA 1"; `root` is the folder that contains sys.
std::string describe_gpu(int index, const GpuFacts::Gpu& gpu, const std::filesystem::path& root = "/");

/// Throws Error when two ranks use one GPU; `identities` by rank, exchanged after connecting.
void check_distinct_gpus(const std::vector<std::string>& identities);

}  // namespace gpus
CAPSTAN_END_NAMESPACE
