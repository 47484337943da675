// What a node's ranks take of host memory, against what is there.
#include "session/host_memory.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "assembly/predict.h"
#include "support/folder.h"

namespace host_memory_test {

using namespace capstan;
using session::available_host_memory;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

struct Offloading {
  setup::Configuration config{{}, {"", {}}, {}, {}, {}, {}, {}, {}, {}, {}, false};
  assembly::Topology topology;
  assembly::Prediction prediction;
};

Offloading offloading(const std::string& device) {
  Offloading job;
  job.config.device = device;
  job.topology.ranks_per_node = 2;
  job.topology.policy.offload_optim = true;
  job.prediction.footprints = {{"optimizer state", 3 * gib, "host", "always"}, {"parameters", gib, device, "always"}};
  return job;
}

std::int64_t host_bytes(const Offloading& job) { return session::host_bytes(job.prediction, job.config.device); }

std::string faults(const Offloading& job, std::optional<std::int64_t> available) {
  Diagnostics diagnostics;
  session::check_host_memory(job.config, job.topology, job.prediction, available, diagnostics);
  return diagnostics.empty() ? "" : Error(diagnostics.list()).what();
}

}  // namespace

TEST_CASE("what the ranks of a node offload is held against what is left, where that is known") {
  const auto job = offloading("cuda");
  CHECK(host_bytes(job) == 3 * gib);
  CHECK(faults(job, 6 * gib).empty());
  CHECK_THAT(faults(job, 6 * gib - 1),
             Contains("offloading needs 3.00 GiB of host memory a rank, 6.00 GiB for the 2 ranks of a node, and") &&
                 Contains("are left") && Contains("use more nodes (check learns of them by --nodes)"));
  CHECK_THAT(faults(job, 0), Contains("offloading needs"));  // a control group at its limit is known to leave nothing
  CHECK(faults(job, {}).empty());                            // what is left is not known
}

TEST_CASE("ranks on CPUs take what they do not offload from the same memory") {
  auto job = offloading("cpu");
  CHECK(host_bytes(job) == 4 * gib);
  CHECK_THAT(faults(job, 7 * gib), Contains("8.00 GiB for the 2 ranks"));
  // Nothing is offloaded: all that such a rank trains with is in host memory all the same.
  job.prediction.footprints = {{"parameters", gib, "cpu", "always"}};
  job.topology.policy.offload_optim = false;
  CHECK(host_bytes(job) == gib);
  CHECK(faults(job, 2 * gib).empty());
  CHECK_THAT(faults(job, 2 * gib - 1), Contains("training on CPUs needs 1.00 GiB of host memory a rank"));
}

TEST_CASE("run.host_memory is in GiB, for all ranks of a node") {
  CHECK_FALSE(session::told_host_memory({}));
  Diagnostics diagnostics;
  const config::Options<setup::RunOptions> run(
      config::Section{"run", {}, {{"host_memory", 1.5, {config::Origin::Layer::file, "a.toml", 7}}}}, diagnostics);
  CHECK(diagnostics.empty());
  CHECK(session::told_host_memory(*run) == 3 * gib / 2);
}

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

}  // namespace host_memory_test
