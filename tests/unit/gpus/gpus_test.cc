#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan_catch.h>

#include <filesystem>

#include "gpus/gpus.h"
#include "support/folder.h"

namespace gpus_test {

namespace {
using capstan::gpus::check_distinct_gpus;
using capstan::gpus::choose_gpu;
using capstan::gpus::describe_gpu;
using capstan::gpus::GpuFacts;
using capstan::launch::World;

GpuFacts hopper(std::size_t count) {
  GpuFacts facts;
  facts.driver = true;
  facts.driver_version = 13000;
  facts.gpus.assign(count, {9, 0, "GPU-0", "NVIDIA H200", "0000:3b:00.0"});
  return facts;
}

World local_rank(int rank, int size, const char* launcher) {
  World world;
  world.rank = world.local_rank = rank;
  world.size = world.local_size = size;
  world.host = "node7";
  world.launcher = launcher;
  return world;
}

TEST_CASE("gpu: each rank takes the one of its local rank") {
  CHECK(choose_gpu(hopper(8), local_rank(0, 4, "srun"), 13) == 0);
  CHECK(choose_gpu(hopper(8), local_rank(3, 4, "srun"), 13) == 3);
  CHECK(choose_gpu(hopper(1), local_rank(0, 1, "alone"), 13) == 0);
  CHECK(choose_gpu(hopper(1), local_rank(3, 4, "srun"), 13) == 0);  // --gpus-per-task=1 shows each its own
}

TEST_CASE("gpu: refusals, in words") {
  const World third = local_rank(2, 4, "srun");
  SECTION("no driver") {
    GpuFacts facts;
    facts.driver_problem = "libcuda.so.1: cannot open shared object file";
    CHECK_THROWS_WITH(
        choose_gpu(facts, third, 13),
        Contains("rank 2 on node7 finds no NVIDIA driver: libcuda.so.1: cannot") && Contains("device = \"cpu\""));
  }
  SECTION("driver too old") {
    GpuFacts facts = hopper(4);
    facts.driver_version = 12040;
    CHECK_THROWS_WITH(choose_gpu(facts, third, 13),
                      Contains("the NVIDIA driver runs CUDA up to 12.4, this LibTorch is built for CUDA 13") &&
                          Contains("use a LibTorch built for CUDA 12"));
    CHECK(choose_gpu(facts, third, 12) == 2);
  }
  SECTION("no GPU") {
    CHECK_THROWS_WITH(choose_gpu(hopper(0), third, 13),
                      Contains("rank 2 on node7 sees no GPU") && Contains("#SBATCH --gpus-per-node=4"));
  }
  SECTION("more ranks than GPUs") {
    CHECK_THROWS_WITH(choose_gpu(hopper(2), third, 13),
                      Contains("rank 2 on node7 is number 2 of 4 on its node, which shows 2 GPUs") &&
                          Contains("#SBATCH --ntasks-per-node=2, or #SBATCH --gpus-per-node=4"));
    CHECK_THROWS_WITH(choose_gpu(hopper(1), local_rank(1, 2, "local"), 13), Contains("which shows 1 GPU"));
  }
  SECTION("GPU too old") {
    GpuFacts facts = hopper(4);
    facts.gpus[2] = {7, 0, "", "", ""};
    CHECK_THROWS_WITH(choose_gpu(facts, third, 13), Contains("GPU 2 has compute capability 7.0; CUDA 13 needs 7.5") &&
                                                        Contains("#SBATCH --constraint"));
    CHECK(choose_gpu(facts, third, 12) == 2);
  }
}

TEST_CASE("gpu: two ranks on one GPU are found") {
  check_distinct_gpus({"node1 GPU-a", "node1 GPU-b", "node2 GPU-a"});
  CHECK_THROWS_WITH(check_distinct_gpus({"node1 GPU-a", "node1 GPU-b", "node1 GPU-a"}),
                    Contains("ranks 0 and 2 use the same GPU: node1 GPU-a") && Contains("--ntasks-per-node"));
}

TEST_CASE("gpu: the driver can be asked on any machine") {
  const GpuFacts facts = capstan::gpus::ask_driver();
  CHECK(facts.driver == facts.driver_problem.empty());
  if (!facts.driver) CHECK(facts.gpus.empty());
}

TEST_CASE("a GPU in words") {
  const test::Folder root;
  const auto folder = root / "sys/bus/pci/devices/0000:3b:00.0";
  std::filesystem::create_directories(folder);
  capstan::write_file(folder / "numa_node", "1\n");
  const GpuFacts::Gpu gpu{9, 0, "GPU-1b2f3c4d-aaaa-bbbb", "NVIDIA H200", "0000:3B:00.0"};
  CHECK(describe_gpu(3, gpu, root.path()) == "3 NVIDIA H200 GPU-1b2f3c4d NUMA 1");
  CHECK(describe_gpu(3, gpu, root / "none") == "3 NVIDIA H200 GPU-1b2f3c4d");
}

}  // namespace

}  // namespace gpus_test
