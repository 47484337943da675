#include <capstan/base/exit_code.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <set>

#include "plugins/commands/preflight/link_measures.h"
#include "plugins/commands/preflight/rank_measures.h"
#include "plugins/commands/preflight/report.h"
#include "support/folder.h"

namespace {
using namespace preflight;  // NOLINT(google-build-using-namespace)
using capstan::cat;
using capstan::ExitCode;
using capstan::comm::Communicator;
using capstan::comm::run_in_process;

const c10::Device cpu(c10::kCPU);
constexpr std::int64_t mib = 1LL << 20U;

/// Four ranks on two nodes, none remarkable.
PreflightReport even() {
  PreflightReport report;
  for (int rank = 0; rank < 4; ++rank) {
    RankMeasures one;
    one.host = rank < 2 ? "g1" : "g2";
    one.node = rank / 2;
    one.versions = {{"LibTorch", "2.11.0"}, {"driver", "CUDA 13.0"}};
    one.gemm_tflops = 600 + rank;
    one.free_bytes = 1e12;
    one.clock_s = 1000 + 0.01 * rank;
    report.ranks.push_back(one);
  }
  report.collectives.push_back({"all-reduce", 64 * mib, 4, 0.001, 100.5, {}});
  return report;
}

std::string line(const PreflightReport& report, const PreflightOptions& options = {}) {
  return judge(report, options).line;
}

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

TEST_CASE("preflight: two ranks are one pair") {
  auto report = even();
  report.pairs = {{0, 1, 9}};
  CHECK_THAT(report_text(report), Contains("most 9 (1 pair)\n"));
  report.pairs.push_back({0, 2, 9});
  CHECK_THAT(report_text(report), Contains("(2 pairs)\n"));
}

TEST_CASE("preflight: in its rounds every pair meets once") {
  for (const int size : {1, 2, 3, 4, 7, 8}) {
    std::set<std::pair<int, int>> met;
    const int rounds = size % 2 == 0 ? size - 1 : size;
    for (int round = 0; round < rounds; ++round) {
      for (int rank = 0; rank < size; ++rank) {
        const int other = partner(rank, size, round);
        REQUIRE(other >= 0);
        REQUIRE(other < size);
        CHECK(partner(other, size, round) == rank);
        if (rank < other) CHECK(met.emplace(rank, other).second);
      }
    }
    CHECK(static_cast<int>(met.size()) == size * (size - 1) / 2);
  }
}

TEST_CASE("preflight: collectives are measured with their values checked, pairs and gate on every number of ranks") {
  for (const int size : {2, 3, 4}) {
    run_in_process(size, [size](Communicator& c) {
      LinkMeasures links(c, cpu);
      for (const char* operation : {"all-reduce", "reduce-scatter", "all-gather"}) {
        const auto measured = links.collective(operation, 100'000, 1, 2);
        if (measured.operation != operation || measured.ranks != size || measured.seconds <= 0 ||
            !measured.wrong.empty() || measured.bytes != std::int64_t{4} * size * ((100'000 / 4 + size - 1) / size) ||
            measured.bus_gbps <= 0)
          throw std::runtime_error(cat(operation, " of ", size));
      }
      const auto pairs = links.pairs(10'000);
      if (static_cast<int>(pairs.size()) != size * (size - 1) / 2) throw std::runtime_error("pairs");
      for (const auto& pair : pairs) {
        if (pair.a >= pair.b || pair.gbps <= 0) throw std::runtime_error("a pair");
      }
      const auto gate = links.gate(100'000, 1, 2);
      if (!gate.problem.empty() || !gate.all || gate.all->ranks != size) throw std::runtime_error("gate");
    });
  }
}

TEST_CASE("preflight: all ranks look between the same parts, and may stop there") {
  run_in_process(3, [](Communicator& c) {
    struct Enough {};
    int looks = 0;
    LinkMeasures links(c, cpu, [&] {
      if (++looks == 5) throw Enough();
    });
    (void)links.collective("all-reduce", 100'000, 1, 20);  // many of these are one part
    if (looks != 2) throw std::runtime_error(cat(looks, " looks"));
    try {
      (void)links.collective("all-reduce", 130LL << 20U, 1, 100);
      throw std::runtime_error("it continued");
    } catch (const Enough&) {
      if (looks != 5) throw std::runtime_error(cat(looks, " looks"));
    }
  });
}

TEST_CASE("preflight: a gate that cannot be allocated says on which rank") {
  run_in_process(2, [](Communicator& c) {
    const auto gate = LinkMeasures(c, cpu).gate(1LL << 60U, 0, 1);
    if (gate.all || gate.problem.find("rank 0 on ") != 0 || gate.problem.find("cannot allocate") == std::string::npos)
      throw std::runtime_error(gate.problem);
  });
}

TEST_CASE("preflight: what a single rank measures") {
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

TEST_CASE("preflight: the report in words and as JSON") {
  auto report = even();
  report.ranks[1].gemm_tflops = 1.5;
  report.ranks[0].links = {{"P2P/CUMEM", 16}};
  report.pairs = {{0, 1, 300}, {2, 3, 100}};
  const auto same = RankMeasures::parse(report.ranks[0].serialized());
  CHECK(same.serialized() == report.ranks[0].serialized());
  CHECK(same.links == report.ranks[0].links);
  const auto said = report_text(report);
  CHECK_THAT(said, Contains("versions: LibTorch 2.11.0, driver CUDA 13.0\nlinks: P2P/CUMEM x 16\n"));
  CHECK_THAT(said, Contains("all-reduce  64.00 MiB  4      1         100.5     right"));
  CHECK_THAT(said, Contains("pairs, GB/s: least 100, median 200, most 300 (2 pairs)\n"));
  CHECK_THAT(said, Contains("matrix products, TFLOP/s: least 1.5 (rank 1 on g1), median 601, most 603\n"));
  const auto verdict = judge(report, {});
  const auto json = report_json(report, verdict);
  CHECK_THAT(json, Contains(R"("line": "preflight: WARN: rank 1 on g1)") && Contains(R"("level": "WARN")") &&
                       Contains(R"("bus_gbps": 100.5)") && Contains(R"("gbps": 300.0)"));
}

}  // namespace
