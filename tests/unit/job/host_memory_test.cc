// What a node's ranks take of host memory, against what is there.
#include "job/host_memory.h"

#include <capstan_catch.h>

#include "job/predict.h"

namespace host_memory_test {

using namespace capstan;

namespace {

constexpr std::int64_t gib = std::int64_t{1} << 30;

struct Offloading {
  setup::Configuration config{{}, {"", {}}, {}, {}, {}, {}, {}, {}, {}, {}, false};
  job::Topology topology;
  job::Prediction prediction;
};

Offloading offloading(const std::string& device) {
  Offloading job;
  job.config.device = device;
  job.topology.ranks_per_node = 2;
  job.topology.policy.offload_optim = true;
  job.prediction.footprints = {{"optimizer state", 3 * gib, "host", "always"}, {"parameters", gib, device, "always"}};
  return job;
}

std::int64_t host_bytes(const Offloading& job) { return job::host_bytes(job.prediction, job.config.device); }

std::string faults(const Offloading& job, std::optional<std::int64_t> available) {
  Diagnostics diagnostics;
  job::check_host_memory(job.config, job.topology, job.prediction, available, diagnostics);
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
  CHECK_FALSE(job::told_host_memory({}));
  Diagnostics diagnostics;
  const config::Options<setup::RunOptions> run(
      config::Section{"run", {}, {{"host_memory", 1.5, {config::Origin::Layer::file, "a.toml", 7}}}}, diagnostics);
  CHECK(diagnostics.empty());
  CHECK(job::told_host_memory(*run) == 3 * gib / 2);
}

}  // namespace host_memory_test
