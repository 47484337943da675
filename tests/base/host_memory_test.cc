#include <capstan/base/host_memory.h>
#include <capstan_catch.h>

#include "support/folder.h"

using namespace capstan;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

}  // namespace

TEST_CASE("available host memory: the machine's, or what a control group around this process leaves") {
  const test::Folder folder;
  const auto& root = folder.path();
  CHECK(available_host_memory(root) == 0);  // nothing is known
  folder.write("proc/meminfo", "MemTotal:       64000000 kB\nMemFree:  1000 kB\nMemAvailable:   33554432 kB\n");
  CHECK(available_host_memory(root) == 32 * gib);

  SECTION("version 2: the narrowest of the groups around it") {
    folder.write("proc/self/cgroup", "0::/system.slice/slurmstepd.scope/job_7\n");
    folder.write("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.max", "max\n");
    folder.write("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.current", "1000\n");
    CHECK(available_host_memory(root) == 32 * gib);
    folder.write("sys/fs/cgroup/system.slice/memory.max", std::to_string(10 * gib));
    folder.write("sys/fs/cgroup/system.slice/memory.current", std::to_string(4 * gib));
    CHECK(available_host_memory(root) == 6 * gib);
    folder.write("sys/fs/cgroup/system.slice/slurmstepd.scope/job_7/memory.max", std::to_string(gib + 1000));
    CHECK(available_host_memory(root) == gib);
  }
  SECTION("version 1") {
    folder.write("proc/self/cgroup", "11:cpuset:/\n9:memory:/slurm/job_7\n");
    folder.write("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", std::to_string(8 * gib));
    folder.write("sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", std::to_string(9 * gib));
    CHECK(available_host_memory(root) == 0);  // over its limit already
    folder.write("sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", std::to_string(3 * gib));
    CHECK(available_host_memory(root) == 5 * gib);
  }
}
