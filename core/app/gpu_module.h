#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/world.h>

#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {
class NcclFactory;
}
namespace app {

/// What NVIDIA's driver says, asked without loading anything of CUDA but the driver's own library.
struct GpuFacts {
  struct Gpu {
    int major = 0;  ///< compute capability
    int minor = 0;
    std::string uuid;
  };
  bool driver = false;         ///< libcuda.so.1 is there and answers
  std::string driver_problem;  ///< why not
  int driver_version = 0;      ///< the newest CUDA that it can run: 13000 is 13.0
  std::vector<Gpu> gpus;       ///< visible to this process
};
GpuFacts ask_driver();

/// The GPU that this rank uses, as an index into facts.gpus: its local rank, or the only one where the launcher shows
/// each rank its own. Throws Error for a driver or GPU too old for the LibTorch's CUDA (`cuda_major`), and for a rank
/// without a GPU, with the line of the job script to change.
int choose_gpu(const GpuFacts& facts, const comm::World& world, int cuda_major);

/// GPU side of a rank, opened once and for the life of the process.
struct GpuModule {
  int device = 0;                           ///< made current
  const comm::NcclFactory* nccl = nullptr;  ///< for comm::ConnectOptions
  std::string identity;                     ///< "node7 GPU-…": differs between ranks that do not share a GPU
  std::vector<std::string> warnings;
};

/// Loads libcapstan_cuda.so, which stands beside libcapstan.so, and with it libtorch_cuda. Call it before the first
/// use of ATen (seeds, random numbers, hasCUDA: they decide for good whether there is CUDA) and before threads are
/// started. Throws Error when the module is missing or choose_gpu() refuses.
GpuModule open_gpu_module(const comm::World& world);

/// Throws Error when two ranks use one GPU; `identities` by rank, exchanged after connecting.
void check_distinct_gpus(const std::vector<std::string>& identities);

}  // namespace app
CAPSTAN_END_NAMESPACE
