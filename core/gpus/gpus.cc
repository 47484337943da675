#include "gpus/gpus.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <cctype>
#include <fstream>
#include <map>

namespace capstan::gpus {
namespace {

namespace fs = std::filesystem;

std::string too_old(int version, int cuda) {
  return cat("the NVIDIA driver runs CUDA up to ", version / 1000, ".", version % 1000 / 10,
             ", this LibTorch is built for CUDA ", cuda);
}

}  // namespace

int choose_gpu(const GpuFacts& facts, const launch::World& world, int cuda_major_version) {
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

void check_precision(const GpuFacts::Gpu& gpu, const std::string& precision, const launch::World& world) {
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

void check_distinct_gpus(const std::vector<std::string>& identities) {
  std::map<std::string, std::size_t> users;
  for (std::size_t rank = 0; rank < identities.size(); ++rank) {
    const auto [first, fresh] = users.emplace(identities[rank], rank);
    if (fresh) continue;
    throw Error(cat("ranks ", first->second, " and ", rank, " use the same GPU: ", identities[rank]),
                "start one rank per GPU: #SBATCH --ntasks-per-node equal to --gpus-per-node");
  }
}

}  // namespace capstan::gpus
