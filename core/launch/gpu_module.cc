#include "launch/gpu_module.h"

#include <capstan/base/error.h>
#include <capstan/base/paths.h>
#include <capstan/base/text.h>

#include <ATen/Context.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>

#include "comm/nccl.h"
#include "launch/foreign_libraries.h"
#include "launch/gpu_module_elf.h"

namespace capstan::launch {
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
    for (const std::string& library : needed_libraries(file.string())) {
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

std::string too_old(int version, int cuda) {
  return cat("the NVIDIA driver runs CUDA up to ", version / 1000, ".", version % 1000 / 10,
             ", this LibTorch is built for CUDA ", cuda);
}

fs::path module_file() {
  return file_of(reinterpret_cast<const void*>(&choose_gpu)).parent_path() / "libcapstan_cuda.so";
}

}  // namespace

int choose_gpu(const GpuFacts& facts, const comm::World& world, int cuda_major_version) {
  const std::string where = cat("rank ", world.rank, " on ", world.host);
  if (!facts.driver) {
    throw Error(cat(where, " finds no NVIDIA driver: ", facts.driver_problem),
                "set device = \"cpu\", or run on a GPU node");
  }
  if (facts.driver_version < cuda_major_version * 1000) {
    throw Error(
        cat(where, ": ", too_old(facts.driver_version, cuda_major_version)),
        cat("update the driver, or use a LibTorch built for CUDA ", facts.driver_version / 1000, " (-DTorch_ROOT)"));
  }
  const int count = static_cast<int>(facts.gpus.size());
  if (count == 0) {
    throw Error(cat(where, " sees no GPU"),
                cat("write #SBATCH --gpus-per-node=", world.local_size, "; CUDA_VISIBLE_DEVICES must not be empty"));
  }
  const bool own = count == 1 && (world.local_size == 1 || world.launcher == "srun");  // srun may show each its own
  if (!own && world.local_rank >= count) {
    throw Error(cat(where, " is number ", world.local_rank, " of ", world.local_size, " on its node, which shows ",
                    count, count == 1 ? " GPU" : " GPUs"),
                cat("write #SBATCH --ntasks-per-node=", count, ", or #SBATCH --gpus-per-node=", world.local_size));
  }
  const int index = own ? 0 : world.local_rank;
  const GpuFacts::Gpu& gpu = facts.gpus[static_cast<std::size_t>(index)];
  // CUDA 13 dropped everything before Turing; CUDA 12 builds of LibTorch 2.11 still run on Volta.
  const int least = cuda_major_version >= 13 ? 75 : 70;
  if (gpu.major * 10 + gpu.minor < least) {
    throw Error(cat(where, ": GPU ", index, " has compute capability ", gpu.major, ".", gpu.minor, "; CUDA ",
                    cuda_major_version, " needs ", least / 10, ".", least % 10),
                "ask for a newer GPU, for example #SBATCH --constraint=a100 or h100");
  }
  return index;
}

void check_precision(const GpuFacts::Gpu& gpu, const std::string& precision, const comm::World& world) {
  if (gpu.major >= 8 || !precision.starts_with("bf16")) return;
  throw Error(cat("rank ", world.rank, " on ", world.host, ": precision ", precision,
                  " needs compute capability 8.0, this GPU (", gpu.name, ") has ", gpu.major, ".", gpu.minor),
              "ask for a newer GPU, for example #SBATCH --constraint=a100 or h100, or set train.precision = \"fp16\"");
}

std::string describe_gpu(int index, const GpuFacts::Gpu& gpu, const fs::path& root) {
  std::string pci = gpu.pci;
  std::transform(pci.begin(), pci.end(), pci.begin(), [](unsigned char c) { return std::tolower(c); });
  std::ifstream in(root / "sys/bus/pci/devices" / pci / "numa_node");
  int numa = -1;
  in >> numa;
  constexpr std::size_t enough_of_uuid = 12;  // "GPU-1b2f3c4d"
  return cat(index, " ", gpu.name, " ", gpu.uuid.substr(0, enough_of_uuid), numa < 0 ? "" : cat(" NUMA ", numa));
}

int gpu_module_cuda() {
  const auto file = module_file();
  return is_there(file) ? cuda_major(file) : 0;
}

GpuModule open_gpu_module(const Launch& launch, const GpuRequest& request) {
  const comm::World& world = launch.world;
  const auto file = module_file();
  if (!is_there(file)) {
    throw Error(cat("this build has no GPU module: ", file.string(), " does not exist"),
                "build with cmake --preset cuda, or set device = \"cpu\"");
  }
  const GpuFacts facts = ask_driver();
  GpuModule module;
  module.device = choose_gpu(facts, world, cuda_major(file));
  module.warnings = check_gpus(launch, static_cast<int>(facts.gpus.size()));
  const GpuFacts::Gpu& gpu = facts.gpus[static_cast<std::size_t>(module.device)];
  check_precision(gpu, request.precision, world);
  refuse_foreign_libraries(foreign_libraries(torch_cuda_library(), request.ld_library_path));
  module.identity = cat(world.host, " ", gpu.uuid);
  module.description = describe_gpu(module.device, gpu);
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

void check_distinct_gpus(const std::vector<std::string>& identities) {
  std::map<std::string, std::size_t> users;
  for (std::size_t rank = 0; rank < identities.size(); ++rank) {
    const auto [first, fresh] = users.emplace(identities[rank], rank);
    if (fresh) continue;
    throw Error(cat("ranks ", first->second, " and ", rank, " use the same GPU: ", identities[rank]),
                "start one rank per GPU: #SBATCH --ntasks-per-node equal to --gpus-per-node");
  }
}

}  // namespace capstan::launch
