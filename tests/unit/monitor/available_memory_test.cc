// What is left of a machine's memory, or of a control group's.
#include "monitor/available_memory.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "support/folder.h"

namespace available_memory_test {

using namespace capstan;
using monitor::available_host_memory;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

}  // namespace

TEST_CASE("available host memory: the machine's, or what a control group around this process leaves") {
  const test::Folder folder;
  const auto& root = folder.path();
  CHECK_FALSE(available_host_memory(root));  // nothing is known
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
  SECTION("version 2: the page cache of files goes when memory is needed, so it counts as left") {
    folder.write("proc/self/cgroup", "0::/job_7\n");
    folder.write("sys/fs/cgroup/job_7/memory.max", std::to_string(10 * gib));
    folder.write("sys/fs/cgroup/job_7/memory.current", std::to_string(10 * gib));
    CHECK(available_host_memory(root) == 0);  // at its limit: known, and nothing left
    const auto stat = [&](std::int64_t inactive, std::int64_t active) {
      folder.write("sys/fs/cgroup/job_7/memory.stat",
                   cat("anon ", 3 * gib, "\nfile ", 7 * gib, "\nfile_dirty 0\ninactive_anon 5\nactive_anon 6\n",
                       "inactive_file ", inactive, "\nactive_file ", active, "\ntotal_active_file 1000\n"));
    };
    stat(4 * gib, 2 * gib);
    CHECK(available_host_memory(root) == 6 * gib);
    stat(9 * gib, 9 * gib);  // read a little later than memory.current: never more than the limit
    CHECK(available_host_memory(root) == 10 * gib);
  }
  SECTION("version 1") {
    folder.write("proc/self/cgroup", "11:cpuset:/\n9:memory:/slurm/job_7\n");
    folder.write("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", std::to_string(8 * gib));
    folder.write("sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", std::to_string(9 * gib));
    CHECK(available_host_memory(root) == 0);  // over its limit already
    folder.write("sys/fs/cgroup/memory/slurm/job_7/memory.usage_in_bytes", std::to_string(3 * gib));
    CHECK(available_host_memory(root) == 5 * gib);
    // The group's own part and, with "total_", that of the groups inside it too: memory.usage_in_bytes holds all.
    folder.write("sys/fs/cgroup/memory/slurm/job_7/memory.stat",
                 cat("cache 0\ninactive_file 7\nactive_file 8\ntotal_inactive_file ", gib, "\ntotal_active_file ",
                     gib / 2, "\n"));
    CHECK(available_host_memory(root) == 13 * gib / 2);
  }
}

}  // namespace available_memory_test
