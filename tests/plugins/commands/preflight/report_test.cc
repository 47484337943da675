#include "plugins/commands/preflight/report.h"

#include <capstan_catch.h>

#include "plugins/commands/preflight/reports.h"

namespace report_test {

using namespace preflight;

TEST_CASE("preflight: two ranks are one pair") {
  auto report = even();
  report.pairs = {{0, 1, 9}};
  CHECK_THAT(report_text(report), Contains("most 9 (1 pair)\n"));
  report.pairs.push_back({0, 2, 9});
  CHECK_THAT(report_text(report), Contains("(2 pairs)\n"));
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

}  // namespace report_test
