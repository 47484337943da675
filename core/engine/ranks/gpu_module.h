#pragma once
#include <capstan/base/export.h>
#include <capstan/command/run_extension.h>

#include <string>
#include <vector>

#include "gpus/gpus.h"
#include "launch/launch.h"

CAPSTAN_BEGIN_NAMESPACE
namespace comm {
class NcclFactory;
}
namespace ranks {

/// What a rank computes on. A GPU is opened once and for the lifetime of the process.
struct Device : command::RankDevice {
  const comm::NcclFactory* nccl = nullptr;  ///< for comm::ConnectOptions
  std::string identity;                     ///< "node7 GPU-…": differs between ranks that do not share a GPU
  int capability = 0;                       ///< compute capability, 90 for 9.0
  std::vector<std::string> warnings;
};

/// Loads libcapstan_cuda.so from the folder of libcapstan.so, and with it libtorch_cuda. Call it before the first use
/// of ATen (seeds, random numbers, hasCUDA: their first use fixes whether there is CUDA) and before threads are
/// started. Throws Error, before anything is loaded, when the module is missing, the driver, the GPU or the layout of
/// tasks is unsuitable (choose_gpu, check_gpus, check_precision), or LD_LIBRARY_PATH mixes in other CUDA libraries.
/// The GPU is made current.
Device open_gpu(const launch::Launch& launch, const std::string& precision, const std::string& ld_library_path);

/// The major version of CUDA that the GPU module is built for; 0: this build has none.
int gpu_module_cuda();

}  // namespace ranks
CAPSTAN_END_NAMESPACE
