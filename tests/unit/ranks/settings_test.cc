// CPUs, network settings and libraries of a rank.
#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <numeric>

#include "ranks/comm_settings.h"
#include "ranks/cpu_share.h"
#include "ranks/elf.h"
#include "ranks/foreign_libraries.h"
#include "ranks/gpus.h"
#include "support/folder.h"

namespace {
using namespace capstan::launch;  // NOLINT(google-build-using-namespace)
using capstan::cat;
namespace fs = std::filesystem;

std::vector<int> cpus(int count) {
  std::vector<int> list(static_cast<std::size_t>(count));
  std::iota(list.begin(), list.end(), 0);
  return list;
}

Launch by_srun(int local_size, Allocation slurm) {
  Launch launch;
  launch.world.launcher = "srun";
  launch.world.size = launch.world.local_size = local_size;
  launch.slurm = slurm;
  return launch;
}

int threads(const Launch& launch, int mask, int quota = 0, std::map<std::string, std::string> variables = {}) {
  return cpu_share(environment(std::move(variables)), launch, cpus(mask), quota, "/none").threads;
}

TEST_CASE("cpu threads follow the allocation") {
  CHECK(threads(Launch(), 16) == 16);
  CHECK(threads(Launch(), 16, 4) == 4);  // a container's quota
  CHECK(threads(Launch(), 16, 32) == 16);
  CHECK(threads(Launch(), 16, 4, {{"OMP_NUM_THREADS", "7"}}) == 7);
  CHECK(threads(Launch(), 16, 4, {{"OMP_NUM_THREADS", "6,2"}}) == 6);  // the user's wins
  CHECK(threads(by_srun(4, {0, 64, 8, false}), 64) == 8);              // --cpus-per-task without binding
  CHECK(threads(by_srun(4, {0, 64, 8, false}), 8) == 8);
  CHECK(threads(by_srun(4, {0, 64, 0, false}), 64) == 16);  // the whole node's mask, shared by four
  CHECK(threads(by_srun(4, {0, 64, 0, false}), 16) == 16);  // bound: its own
  CHECK(threads(by_srun(4, {0, 2, 0, false}), 2) == 1);
  CHECK_THROWS_WITH(threads(Launch(), 4, 0, {{"OMP_NUM_THREADS", "many"}}),
                    Contains("OMP_NUM_THREADS is 'many', not a number of threads"));
  CHECK_THROWS_WITH(threads(Launch(), 4, 0, {{"OMP_NUM_THREADS", "100000000"}}),
                    Contains("OMP_NUM_THREADS is 100000000, more than 65536"));
}

TEST_CASE("cpu threads: srun that did not take --cpus-per-task over is warned of") {
  const auto share = cpu_share(environment({}), by_srun(2, {0, 64, 8, false}), cpus(1), 0, "/none");
  CHECK(share.threads == 1);
  REQUIRE(share.warnings.size() == 1);
  CHECK_THAT(share.warnings[0], Contains("the job asks for 8 CPUs a task, but a rank has 1") &&
                                    Contains("export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK"));
}

TEST_CASE("cpu threads: the mask in words, with its NUMA nodes") {
  const test::Folder root;
  for (const auto& [node, list] : {std::pair{0, "0-3"}, std::pair{1, "4-7"}}) {
    const auto folder = root / cat("sys/devices/system/node/node", node);
    fs::create_directories(folder);
    capstan::write_file(folder / "cpulist", cat(list, "\n"));
  }
  const auto share = [&](const std::vector<int>& mask) {
    return cpu_share(environment({}), Launch(), mask, 0, root.path());
  };
  CHECK(share({0, 1, 2, 3, 7}).mask == "0-3,7");
  CHECK(share({0, 1, 2, 3, 7}).nodes == "0-1");
  CHECK(share({4, 6}).mask == "4,6");
  CHECK(share({4, 6}).nodes == "1");
  CHECK_FALSE(own_cpus().empty());
}

TEST_CASE("cpu quota: control groups of both versions, the least of all levels") {
  const test::Folder root;
  const auto write = [&](const std::string& file, const std::string& text) {
    fs::create_directories((root / file).parent_path());
    capstan::write_file(root / file, text);
  };
  CHECK(cpu_quota(root.path()) == 0);
  SECTION("version 2") {
    write("proc/self/cgroup", "0::/job/step\n");
    write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
    CHECK(cpu_quota(root.path()) == 0);
    write("sys/fs/cgroup/job/cpu.max", "350000 100000\n");
    CHECK(cpu_quota(root.path()) == 4);  // 3.5, rounded up
  }
  SECTION("version 1") {
    write("proc/self/cgroup", "4:memory:/x\n3:cpu,cpuacct:/job\n");
    write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "-1\n");
    write("sys/fs/cgroup/cpu/job/cpu.cfs_period_us", "100000\n");
    CHECK(cpu_quota(root.path()) == 0);
    write("sys/fs/cgroup/cpu/job/cpu.cfs_quota_us", "200000\n");
    CHECK(cpu_quota(root.path()) == 2);
  }
}

TEST_CASE("too few threads for an offloaded optimizer") {
  CHECK(offload_warning(Launch(), 4).empty());
  CHECK_THAT(offload_warning(Launch(), 1), Contains("updates its state with 1 CPU thread a rank") &&
                                               Contains("give each rank more CPUs, or set OMP_NUM_THREADS"));
  CHECK_THAT(offload_warning(by_srun(4, {}), 2),
             Contains("2 CPU threads") && Contains("#SBATCH --cpus-per-task=8 or more"));
}

TEST_CASE("[comm] becomes NCCL's variables; those of the environment stay and are shown") {
  capstan::setup::CommOptions options;
  const capstan::launch::Variables exported{{"NCCL_ALGO", "Tree"}, {"NCCL_NET_GDR_LEVEL", "4"}, {"HOME", "/home/a"}};
  auto settings = comm_settings(options, exported);
  CHECK(settings.set.empty());
  CHECK(settings.interface.empty());
  CHECK(text(settings.all) == "NCCL_ALGO=Tree NCCL_NET_GDR_LEVEL=4");

  options.interface = "ib0";
  options.ib_hca = "mlx5_0,mlx5_1";
  options.algorithm = "Ring";
  settings = comm_settings(options, exported);
  CHECK(settings.interface == "ib0");
  CHECK(text(settings.set) == "NCCL_IB_HCA=mlx5_0,mlx5_1 NCCL_SOCKET_IFNAME==ib0");
  CHECK(text(settings.all) == "NCCL_ALGO=Tree NCCL_IB_HCA=mlx5_0,mlx5_1 NCCL_NET_GDR_LEVEL=4 NCCL_SOCKET_IFNAME==ib0");
  REQUIRE(settings.warnings.size() == 1);
  CHECK(settings.warnings[0] ==
        R"(NCCL_ALGO=Tree of the environment wins over comm.algorithm = "Ring": unset it to use the option)");
  // The same value by another way is no contradiction.
  CHECK(comm_settings(options, {{"NCCL_ALGO", "Ring"}, {"NCCL_SOCKET_IFNAME", "ib0"}}).warnings.empty());
  // Gloo's own variable, where the option is not set.
  CHECK(comm_settings({}, {{"GLOO_SOCKET_IFNAME", "eth1,eth2"}}).interface == "eth1");
}

TEST_CASE("CUDA libraries that a module puts before our own are refused with their path") {
  const test::Folder root;
  const auto make = [&](const std::string& file) {
    fs::create_directories((root / file).parent_path());
    capstan::write_file(root / file, "x");
  };
  for (const char* name : {"own/libcudart.so.13", "own/libcudnn.so.9", "own/libcudnn_ops.so.9", "own/libnccl.so.2"})
    make(name);
  LibraryNeeds needs{{"libcudart.so.13", "libcudnn.so.9", "libnccl.so.2", "libm.so.6"}, {root / "own"}, false};
  const auto path = cat((root / "empty").string(), "::", (root / "module").string());
  CHECK(foreign_libraries(needs, "").empty());
  CHECK(foreign_libraries(needs, path).empty());
  make("module/libm.so.6");        // none of ours
  make("module/libcudart.so.12");  // another name: never taken
  CHECK(foreign_libraries(needs, path).empty());
  make("module/libnccl.so.2");
  auto found = foreign_libraries(needs, path);
  REQUIRE(found.size() == 1);
  CHECK_THROWS_WITH(refuse_foreign_libraries(found), Contains((root / "module/libnccl.so.2").string() + " instead of " +
                                                              (root / "own/libnccl.so.2").string()) &&
                                                         Contains("module unload cuda cudnn nccl"));
  needs.own_first = true;  // the loader looks into our folders first
  CHECK(foreign_libraries(needs, path).empty());
  make("module/libcudnn_ops.so.9");  // but cuDNN opens its parts by name
  CHECK(foreign_libraries(needs, path).size() == 1);
  // The same folder by another name is ours.
  fs::create_directory_symlink(root / "own", root / "link");
  CHECK(foreign_libraries(needs, (root / "link").string()).empty());
  CHECK_NOTHROW(refuse_foreign_libraries({}));
}

TEST_CASE("where a library looks for others is read from its file") {
  const auto library = fs::path(CAPSTAN_BINARY_DIR) / "lib" / "libcapstan_engine.so";
  const auto paths = search_paths(library.string());
  CHECK(paths.before_environment);  // written as DT_RPATH
  REQUIRE_FALSE(paths.folders.empty());
  for (const auto& folder : paths.folders) CHECK_THAT(folder, !Contains("$ORIGIN"));
  CHECK(search_paths("/does/not/exist").folders.empty());
}

TEST_CASE("a GPU in words") {
  const test::Folder root;
  const auto folder = root / "sys/bus/pci/devices/0000:3b:00.0";
  fs::create_directories(folder);
  capstan::write_file(folder / "numa_node", "1\n");
  const GpuFacts::Gpu gpu{9, 0, "GPU-1b2f3c4d-aaaa-bbbb", "NVIDIA H200", "0000:3B:00.0"};
  CHECK(describe_gpu(3, gpu, root.path()) == "3 NVIDIA H200 GPU-1b2f3c4d NUMA 1");
  CHECK(describe_gpu(3, gpu, root / "none") == "3 NVIDIA H200 GPU-1b2f3c4d");
}

}  // namespace
