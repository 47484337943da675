#include "ranks/gpu_module.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <utility>

#include "comm/nccl.h"
#include "launch/elf.h"
#include "launch/foreign_libraries.h"

namespace capstan::ranks {
namespace {

namespace fs = std::filesystem;

/// The file that holds a symbol of a loaded library.
fs::path file_of(const void* address) {
  Dl_info info{};
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) throw Error("the loader does not know its own files");
  return fs::canonical(info.dli_fname);
}

fs::path torch_cuda_library() {
  return file_of(reinterpret_cast<const void*>(&at::globalContext)).parent_path() / "libtorch_cuda.so";
}

/// LibTorch's CUDA major version, from what its GPU library needs: "libcudart.so.13".
int cuda_major(const fs::path& module) {
  const fs::path torch_cuda = torch_cuda_library();
  for (const fs::path& file : {torch_cuda, module}) {
    if (!is_there(file)) continue;
    for (const std::string& library : launch::needed_libraries(file.string())) {
      if (library.starts_with("libcudart.so.")) return std::atoi(library.c_str() + std::string("libcudart.so.").size());
    }
  }
  throw Error(cat("the LibTorch in ", torch_cuda.parent_path().string(), " has no CUDA part"),
              "run tools/setup --cuda, or set device = \"cpu\"");
}

/// Turns off NCCL's own watchdog, which would end the process before our report; values set by the user are kept.
void tame_nccl_watchdog() {
  for (const auto& [name, value] :
       {std::pair{"TORCH_NCCL_ASYNC_ERROR_HANDLING", "0"}, std::pair{"TORCH_NCCL_ENABLE_MONITORING", "0"},
        std::pair{"TORCH_NCCL_DUMP_ON_TIMEOUT", "0"}}) {
    setenv(name, value, /*overwrite=*/0);  // NOLINT(concurrency-mt-unsafe): before any thread is started
  }
}

fs::path module_file() {
  return file_of(reinterpret_cast<const void*>(&gpu_module_cuda)).parent_path() / "libcapstan_cuda.so";
}

}  // namespace

int gpu_module_cuda() {
  const auto file = module_file();
  return is_there(file) ? cuda_major(file) : 0;
}

GpuModule open_gpu_module(const launch::Launch& launch, const GpuRequest& request) {
  const auto& world = launch.world;
  const auto file = module_file();
  if (!is_there(file)) {
    throw Error(cat("this build has no GPU module: ", file.string(), " does not exist"),
                "build with cmake --preset cuda, or set device = \"cpu\"");
  }
  const launch::GpuFacts facts = launch::ask_driver();
  GpuModule module;
  module.device = launch::choose_gpu(facts, world, cuda_major(file));
  module.warnings = launch::check_gpus(launch, static_cast<int>(facts.gpus.size()));
  const launch::GpuFacts::Gpu& gpu = facts.gpus[static_cast<std::size_t>(module.device)];
  launch::check_precision(gpu, request.precision, world);
  launch::refuse_foreign_libraries(launch::foreign_libraries(torch_cuda_library(), request.ld_library_path));
  module.identity = cat(world.host, " ", gpu.uuid);
  module.description = launch::describe_gpu(module.device, gpu);
  module.uuid = gpu.uuid;
  module.capability = 10 * gpu.major + gpu.minor;
  module.bytes = gpu.bytes;
  module.driver_version = facts.driver_version;
  tame_nccl_watchdog();
  void* handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) throw Error(cat("the GPU module cannot be loaded: ", dlerror()), "run tools/setup --cuda");
  const auto entry = reinterpret_cast<comm::NcclFactoryEntry>(dlsym(handle, "capstan_cuda_nccl"));
  if (entry == nullptr) throw Error(cat(file.string(), " is not Capstan's GPU module"), "rebuild it");
  if (!at::hasCUDA()) throw std::logic_error("the GPU module was opened after the first use of ATen");
  module.nccl = entry();
  c10::impl::VirtualGuardImpl(c10::kCUDA)
      .setDevice(c10::Device(c10::kCUDA, static_cast<c10::DeviceIndex>(module.device)));
  return module;
}

}  // namespace capstan::ranks
