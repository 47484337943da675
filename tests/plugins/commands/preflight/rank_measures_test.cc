#include "plugins/commands/preflight/rank_measures.h"

#include <capstan_catch.h>

#include "plugins/commands/preflight/reports.h"
#include "support/folder.h"

namespace rank_measures_test {

using namespace preflight;

namespace {

const c10::Device cpu(c10::kCPU);

}  // namespace

TEST_CASE("preflight: what a rank measures alone") {
  const test::Folder folder;
  CHECK(measure_gemm(cpu, 64, 0.01) > 0);
  RankMeasures measures;
  measure_copies(cpu, measures);
  CHECK(measures.to_device_gbps < 0);
  measure_disk(folder / "new", 0, mib, measures);
  CHECK(measures.write_gbps > 0);
  CHECK(measures.free_bytes > 0);
  CHECK(measures.problem.empty());
  CHECK(std::filesystem::is_empty(folder / "new"));  // nothing is left after
  measure_disk("/proc/none", 0, mib, measures);
  CHECK_THAT(measures.problem, Contains("cannot write 1.00 MiB into /proc/none: "));
  const auto versions = library_versions(13010);
  CHECK(versions.at("driver") == "CUDA 13.1");
  CHECK_THAT(versions.at("LibTorch"), Contains("."));
  CHECK(gpu_clocks("GPU-of-nobody").empty());
}

TEST_CASE("preflight: the links that NCCL logs") {
  const auto links = links_of_log(
      "g1:1:2 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
      "g1:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 1[1] via P2P/CUMEM\n"
      "g1:1:2 [0] NCCL INFO Channel 00/0 : 3[1] -> 0[0] [receive] via NET/IB/0/GDRDMA\n"
      "g1:1:2 [0] NCCL INFO Channel 01/0 : 0[0] -> 2[0] [send] via NET/Socket/1(3)\n"
      "g1:1:2 [0] NCCL INFO NET/Plugin: could not load via dlopen\n");
  CHECK(links == std::map<std::string, int>{{"NET/IB/GDRDMA", 1}, {"NET/Socket", 1}, {"P2P/CUMEM", 2}});
  CHECK(links_of_log("").empty());
}

}  // namespace rank_measures_test
