#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <string>
#include <vector>

#include "launch/gpus.h"
#include "launch/launch.h"

CAPSTAN_BEGIN_NAMESPACE
namespace comm {
class NcclFactory;
}
namespace ranks {

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
  int capability = 0;      ///< compute capability, 90 for 9.0
  std::int64_t bytes = 0;  ///< of memory
  int driver_version = 0;  ///< 13000 is CUDA 13.0
  std::vector<std::string> warnings;
};

/// Loads libcapstan_cuda.so from the folder of libcapstan.so, and with it libtorch_cuda. Call it before the first use
/// of ATen (seeds, random numbers, hasCUDA: their first use fixes whether there is CUDA) and before threads are
/// started. Throws Error, before anything is loaded, when the module is missing, the driver, the GPU or the layout of
/// tasks is unsuitable (choose_gpu, check_gpus, check_precision), or LD_LIBRARY_PATH mixes in other CUDA libraries.
GpuModule open_gpu_module(const launch::Launch& launch, const GpuRequest& request);

/// The major version of CUDA that the GPU module is built for; 0: this build has none.
int gpu_module_cuda();

}  // namespace ranks
CAPSTAN_END_NAMESPACE
