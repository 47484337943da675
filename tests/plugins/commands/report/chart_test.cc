#include "plugins/commands/report/chart.h"

#include <capstan_catch.h>

namespace chart_test {

using namespace report;

TEST_CASE("ticks are round and lie in the range") {
  CHECK(ticks(0, 10, 5) == std::vector<double>{0, 2, 4, 6, 8, 10});
  const auto small = ticks(1e-5, 5e-5, 5);
  REQUIRE(small.size() >= 4);
  CHECK(small.front() >= 1e-5 * 0.999);
  CHECK(small.back() <= 5e-5 * 1.001);
}

TEST_CASE("an axis of counts has whole numbers, and neighbouring ticks differ") {
  const auto svg = svg_of({"", "step", "loss", {{"a", {{1, 5.5471}, {2, 5.5473}}}}});
  CHECK_THAT(svg, Contains(">1</text>") && Contains(">2</text>") && !Contains(">1.5</text>"));
  CHECK_THAT(svg, Contains(">5.5471</text>") && Contains(">5.5472</text>"));
}

TEST_CASE("lines that coincide are named, and the first one is the wider") {
  const std::vector<runs::Point> line{{1, 2}, {2, 3}};
  const Chart chart{"", "step", "loss", {{"a", line}, {"b", {{1, 3}, {2, 2}}}, {"c", line}, {"d", line}, {"e", {}}}};
  using Covered = std::optional<std::size_t>;
  CHECK(covers_of(chart) == std::vector<Covered>{{}, {}, 0, 0, {}});
  const auto svg = svg_of(chart);
  CHECK_THAT(svg, Contains("<title>a</title><polyline style=\"stroke-dasharray:none;stroke-width:10\"") &&
                      Contains("<title>b</title><polyline points=") && Contains("<title>d</title><polyline points="));
}

TEST_CASE("a shorter line under a longer one is hidden by it, and a longer one under a shorter one is not") {
  const std::vector<runs::Point> line{{0, 0}, {50, 5}, {100, 0}};
  const std::vector<runs::Point> begin{{0, 0}, {25, 2.5}};
  using Covered = std::optional<std::size_t>;
  CHECK(covers_of({"", "", "", {{"short", begin}, {"long", line}}}) == std::vector<Covered>{{}, 0});
  CHECK(covers_of({"", "", "", {{"long", line}, {"short", begin}}}) == std::vector<Covered>{{}, {}});
  CHECK(covers_of({"", "", "", {{"other", {{0, 0}, {25, 3.5}}}, {"long", line}}}) == std::vector<Covered>{{}, {}});
}

TEST_CASE("what a line is smoothed from is pale, and the axes have room for it") {
  const auto svg = svg_of({"", "step", "samples/s", {{"a", {{0, 5}, {9, 5}}, {{0, 1}, {9, 9}}}}, true});
  CHECK_THAT(svg, Contains("<polyline class=\"raw\" points=") && Contains(">8</text>"));
}

}  // namespace chart_test
