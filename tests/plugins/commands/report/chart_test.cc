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

}  // namespace chart_test
