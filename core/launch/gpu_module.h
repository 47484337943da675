#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/world.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "launch/launch.h"

CAPSTAN_BEGIN_NAMESPACE
namespace comm {
class NcclFactory;
}
namespace launch {

/// What NVIDIA's driver reports, without loading anything of CUDA but the driver's own library.
struct GpuFacts {
  struct Gpu {
    int major = 0;  ///< compute capability
    int minor = 0;
    std::string uuid;
    std::string name;        ///< "NVIDIA H200"
    std::string pci;         ///< "0000:3b:00.0"
    std::int64_t bytes = 0;  ///< of memory
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
int choose_gpu(const GpuFacts& facts, const comm::World& world, int cuda_major);

/// Throws Error if the GPU cannot compute in `precision`: bf16 needs compute capability 8.0.
void check_precision(const GpuFacts::Gpu& gpu, const std::string& precision, const comm::World& world);

/// "3 NVIDIA H200 GPU-1b2f… NUMA 1"; `root` is the folder that contains sys.
std::string describe_gpu(int index, const GpuFacts::Gpu& gpu, const std::filesystem::path& root = "/");

/// "1980 of 1980 MHz, 41 °C", from NVML now; "throttled: too hot, …" if the GPU lowers its clocks for other reasons
/// than its power limit; "" without NVML.
std::string gpu_clocks(const std::string& uuid);

/// What opening needs from the run.
struct GpuRequest {
  std::string precision;        ///< train.precision
  std::string ld_library_path;  ///< of the environment
};

/// A rank's GPU, opened once and for the lifetime of the process.
struct GpuModule {
  int device = 0;                           ///< made current
  const comm::NcclFactory* nccl = nullptr;  ///< for comm::ConnectOptions
  std::string identity;                     ///< "node7 GPU-…": differs between ranks that do not share a GPU
  std::string description;                  ///< describe_gpu()
  std::string uuid;
  std::int64_t bytes = 0;  ///< of memory
  int driver_version = 0;  ///< 13000 is CUDA 13.0
  std::vector<std::string> warnings;
};

/// Loads libcapstan_cuda.so from the folder of libcapstan.so, and with it libtorch_cuda. Call it before the first use
/// of ATen (seeds, random numbers, hasCUDA: their first use fixes whether there is CUDA) and before threads are
/// started. Throws Error, before anything is loaded, when the module is missing, the driver, the GPU or the layout of
/// tasks is unsuitable (choose_gpu, check_gpus, check_precision), or LD_LIBRARY_PATH mixes in other CUDA libraries.
GpuModule open_gpu_module(const Launch& launch, const GpuRequest& request);

/// The major version of CUDA that the GPU module is built for; 0: this build has none.
int gpu_module_cuda();

/// Throws Error when two ranks use one GPU; `identities` by rank, exchanged after connecting.
void check_distinct_gpus(const std::vector<std::string>& identities);

}  // namespace launch
CAPSTAN_END_NAMESPACE
