#include "launch/cpu_share.h"

#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <map>
#include <numeric>

#include "support/folder.h"

namespace cpu_share_test {

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

TEST_CASE("ranks are crowded where they have more threads than the CPUs that they share") {
  const auto crowded = [](const Launch& launch, int mask, int quota, std::map<std::string, std::string> variables) {
    return cpu_share(environment(std::move(variables)), launch, cpus(mask), quota, "/none").crowded;
  };
  Launch local;
  local.world.launcher = "local";
  local.world.size = local.world.local_size = 4;
  const std::map<std::string, std::string> one{{"OMP_NUM_THREADS", "1"}}, two{{"OMP_NUM_THREADS", "2"}};
  CHECK(crowded(local, 2, 0, one));
  CHECK_FALSE(crowded(local, 4, 0, one));
  CHECK(crowded(local, 4, 0, two));
  CHECK(crowded(local, 8, 4, two));  // a container's quota
  CHECK_FALSE(crowded(local, 8, 0, two));
  CHECK(crowded(Launch(), 1, 0, two));
  CHECK_FALSE(crowded(Launch(), 2, 0, {}));
  CHECK_FALSE(crowded(by_srun(4, {0, 64, 0, false}), 16, 0, {}));  // each has its own
  CHECK(crowded(by_srun(4, {0, 64, 0, false}), 64, 0, {{"OMP_NUM_THREADS", "17"}}));
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

}  // namespace

}  // namespace cpu_share_test
