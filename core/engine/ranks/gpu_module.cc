#include "ranks/gpu_module.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <dlfcn.h>

#include <boost/dll/runtime_symbol_info.hpp>
#include <cstdlib>
#include <filesystem>
#include <utility>

#include "comm/nccl.h"
#include "gpus/foreign_libraries.h"
#include "plugin/loader.h"

namespace capstan::ranks {
namespace {

namespace fs = std::filesystem;

fs::path torch_cuda_library() {
  return fs::canonical(boost::dll::symbol_location(at::globalContext).string()).parent_path() / "libtorch_cuda.so";
}

/// LibTorch's CUDA major version, from what its GPU library needs: "libcudart.so.13".
int cuda_major(const fs::path& module) {
  const fs::path torch_cuda = torch_cuda_library();
  for (const fs::path& file : {torch_cuda, module}) {
    if (!is_there(file)) continue;
    const auto needs = gpus::needs_of(file);
    for (const std::string& library : needs.names) {
      if (library.starts_with("libcudart.so.")) return std::atoi(library.c_str() + std::string("libcudart.so.").size());
    }
  }
  throw Error(cat("the LibTorch in ", torch_cuda.parent_path().string(), " has no CUDA part"),
              "run tools/setup --cuda, or set device = \"cpu\"");
}

/// Turns off NCCL's own watchdog, which would end the process before our report, and lets the allocator's segments
/// grow, so that no gap between tensors is too small for one; values set by the user are kept.
void set_torch_defaults() {
  if (std::getenv("PYTORCH_ALLOC_CONF") == nullptr)  // NOLINT(concurrency-mt-unsafe): as below
    setenv("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True", /*overwrite=*/0);  // NOLINT(concurrency-mt-unsafe)
  for (const char* name :
       {"TORCH_NCCL_ASYNC_ERROR_HANDLING", "TORCH_NCCL_ENABLE_MONITORING", "TORCH_NCCL_DUMP_ON_TIMEOUT"}) {
    setenv(name, "0", /*overwrite=*/0);  // NOLINT(concurrency-mt-unsafe): before any thread is started
  }
}

fs::path module_file() { return plugin::own_library().parent_path() / "libcapstan_cuda.so"; }

}  // namespace

int gpu_module_cuda() {
  const auto file = module_file();
  return is_there(file) ? cuda_major(file) : 0;
}

Device open_gpu(const launch::Launch& launch, const std::string& precision, const std::string& ld_library_path) {
  const auto& world = launch.world;
  const auto file = module_file();
  if (!is_there(file)) {
    throw Error(cat("this build has no GPU module: ", file.string(), " does not exist"),
                "build with cmake --preset cuda, or set device = \"cpu\"");
  }
  const gpus::GpuFacts facts = gpus::ask_driver();
  Device device;
  device.kind = "cuda";
  device.gpu = gpus::choose_gpu(facts, world, cuda_major(file));
  device.warnings = launch::check_gpus(launch, static_cast<int>(facts.gpus.size()));
  const gpus::GpuFacts::Gpu& gpu = facts.gpus[static_cast<std::size_t>(device.gpu)];
  gpus::check_precision(gpu, precision, world);
  gpus::refuse_foreign_libraries(gpus::foreign_libraries(gpus::needs_of(torch_cuda_library()), ld_library_path));
  device.identity = cat(world.host, " ", gpu.uuid);
  device.description = gpus::describe_gpu(device.gpu, gpu);
  device.uuid = gpu.uuid;
  device.capability = 10 * gpu.major + gpu.minor;
  device.bytes = gpu.bytes;
  device.driver_version = facts.driver_version;
  set_torch_defaults();
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw Error(cat("the GPU module cannot be loaded: ", dlerror()), "run tools/setup --cuda");
  const auto entry = reinterpret_cast<comm::NcclFactoryEntry>(dlsym(handle, "capstan_cuda_nccl"));
  if (entry == nullptr) throw Error(cat(file.string(), " is not Capstan's GPU module"), "rebuild it");
  if (!at::hasCUDA()) throw std::logic_error("the GPU module was opened after the first use of ATen");
  device.nccl = entry();
  c10::impl::VirtualGuardImpl(c10::kCUDA).setDevice(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(device.gpu)));
  return device;
}

}  // namespace capstan::ranks
