#include <capstan/base/exit_code.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "plugins/commands/preflight/reports.h"

namespace judge_test {

using namespace preflight;
using capstan::cat;
using capstan::ExitCode;

namespace {

std::string line(const PreflightReport& report, const PreflightOptions& options = {}) {
  return judge(report, options).line;
}

}  // namespace

TEST_CASE("preflight: bus bandwidth as nccl-tests counts it") {
  CHECK(bus_bandwidth("all-reduce", 8'000'000'000, 4, 1.0) == Approx(12).epsilon(1e-12));     // x 2 x 3/4
  CHECK(bus_bandwidth("reduce-scatter", 8'000'000'000, 4, 2.0) == Approx(3).epsilon(1e-12));  // x 3/4
  CHECK(bus_bandwidth("all-gather", 8'000'000'000, 2, 1.0) == Approx(4).epsilon(1e-12));
  CHECK(bus_bandwidth("all-reduce", 8, 1, 1.0) == 0);
  CHECK(median({3, 1, 2}) == 2);
  CHECK(median({4, 1, 2, 3}) == 2.5);
}

TEST_CASE("preflight: nothing remarkable is a PASS") {
  const auto verdict = judge(even(), {});
  CHECK(verdict.line == "preflight: PASS: 4 ranks on 2 hosts, all-reduce up to 101 GB/s");
  CHECK(verdict.exit_code == 0);
  CHECK(verdict.findings.empty());
}

TEST_CASE("preflight: what is wrong with a rank names it") {
  auto report = even();
  auto& odd = report.ranks[3];
  SECTION("matrix products") {
    odd.gemm_tflops = 300;
    odd.clocks = "1200 of 1980 MHz, 84 °C";
    CHECK(line(report) ==
          "preflight: WARN: rank 3 on g2: matrix products at 300 TFLOP/s, the median is 601 (1200 of 1980 MHz, 84 °C)");
    CHECK(judge(report, {}).exit_code == 0);
    PreflightOptions lenient;
    lenient.least_share = 0.4;
    CHECK_THAT(line(report, lenient), Contains("PASS"));
  }
  SECTION("copies") {
    for (auto& one : report.ranks) one.to_device_gbps = one.to_host_gbps = 50;
    odd.to_device_gbps = 12.346;
    CHECK(line(report) == "preflight: WARN: rank 3 on g2: copies to the device at 12.35 GB/s, the median is 50");
  }
  SECTION("throttle") {
    odd.clocks = "throttled: too hot, 900 of 1980 MHz, 90 °C";
    CHECK(line(report) == "preflight: WARN: rank 3 on g2: the GPU is throttled: too hot, 900 of 1980 MHz, 90 °C");
  }
  SECTION("wrong values") {
    report.collectives[0].wrong = {3};
    CHECK(line(report) == "preflight: FAIL: rank 3 on g2 has wrong values after all-reduce of 64.00 MiB");
    CHECK(judge(report, {}).exit_code == static_cast<int>(ExitCode::failure));
  }
  SECTION("disk") {
    odd.problem = "cannot write 256.00 MiB into /scratch: No space left on device";
    CHECK(line(report) ==
          "preflight: FAIL: rank 3 on g2: cannot write 256.00 MiB into /scratch: No space left on device");
  }
  SECTION("free space, once a host") {
    report.ranks[2].free_bytes = odd.free_bytes = 1e9;
    CHECK(line(report) ==
          "preflight: WARN: rank 2 on g2: run.dir has 953.67 MiB of free space, below preflight.min_free_gib = 10");
  }
  SECTION("versions") {
    odd.versions["LibTorch"] = "2.10.0";
    CHECK(line(report) == "preflight: FAIL: rank 3 on g2 has LibTorch 2.10.0, rank 0 has 2.11.0");
    odd.versions = {{"LibTorch", "2.11.0"}};
    CHECK(line(report) == "preflight: WARN: rank 3 on g2 has driver none, rank 0 has CUDA 13.0");
  }
  SECTION("clock") {
    odd.clock_s = 1003;
    CHECK(line(report) == "preflight: WARN: rank 3 on g2: the host's clock is 2.99 s fast");
  }
  SECTION("sockets") {
    odd.links = {{"NET/Socket", 4}};
    CHECK_THAT(line(report),
               Contains("rank 3 on g2: NCCL goes over TCP (NET/Socket), not InfiniBand: see comm.ib_hca"));
  }
  SECTION("the worst stands first") {
    odd.clock_s = 1003;
    report.collectives[0].wrong = {1};
    CHECK(line(report) == "preflight: FAIL: rank 1 on g1 has wrong values after all-reduce of 64.00 MiB (and 1 more)");
  }
}

TEST_CASE("preflight: slow pairs, and the rank that is in all of them") {
  auto report = even();
  for (const auto& [a, b] : {std::pair{0, 2}, std::pair{0, 3}, std::pair{1, 2}, std::pair{1, 3}})
    report.pairs.push_back({a, b, 40});
  report.pairs.push_back({0, 1, 300});  // inside a node: not to be compared with those between nodes
  report.pairs.push_back({2, 3, 290});
  CHECK_THAT(line(report), Contains("PASS"));
  report.pairs[1].gbps = 20;
  CHECK(line(report) ==
        "preflight: WARN: rank 0 on g1 and rank 3 on g2 exchange 20 GB/s, the median between nodes is 40");
  // Five hosts of one rank, the last one's four links slow.
  PreflightReport wide;
  for (int rank = 0; rank < 5; ++rank) {
    wide.ranks.emplace_back();
    wide.ranks.back().host = cat("g", rank);
    wide.ranks.back().node = rank;
    for (int other = 0; other < rank; ++other) wide.pairs.push_back({other, rank, rank == 4 ? 10.0 : 40.0});
  }
  CHECK(line(wide) == "preflight: WARN: rank 4 on g4: its links between nodes are slow, 10 GB/s, the median is 40");
}

TEST_CASE("preflight: the gate") {
  PreflightOptions options;
  options.min_bus_gbps = 5;
  auto report = even();
  report.gate.emplace();
  report.gate->all = Bandwidth{"all-reduce", 4096 * mib, 4, 1, 5, {}};
  report.gate->one_a_node = Bandwidth{"all-reduce", 4096 * mib, 2, 1, 5.5, {}};
  CHECK(judge(report, options).exit_code == 0);
  report.gate->one_a_node->bus_gbps = 4.99;
  report.pairs = {{0, 2, 9}, {1, 3, 1}};
  CHECK(
      line(report, options) ==
      "preflight: FAIL: all-reduce over one rank of each node reaches 4.99 GB/s, below preflight.min_bus_gbps = 5; the "
      "slowest pair is rank 1 on g1 and rank 3 on g2, 1 GB/s");
  CHECK(judge(report, options).exit_code == 46);
  report.gate->problem = "rank 1 on g1 cannot allocate 4.00 GiB";
  CHECK(line(report, options) ==
        "preflight: FAIL: the all-reduce bandwidth cannot be measured: rank 1 on g1 cannot allocate 4.00 GiB");
  CHECK(judge(report, options).exit_code == 44);
}

}  // namespace judge_test
