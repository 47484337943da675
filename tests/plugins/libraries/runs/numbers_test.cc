#include "runs/numbers.h"

#include <capstan_catch.h>

#include <cmath>

namespace numbers_test {

using namespace runs;

TEST_CASE("thinning keeps means, and no point that is not finite") {
  std::vector<std::pair<double, double>> points;
  for (int i = 0; i < 1000; ++i) points.emplace_back(i, i % 2 == 0 ? 1.0 : 3.0);
  points.emplace_back(1000, std::nan(""));
  const auto kept = thinned(points, 100);
  REQUIRE(kept.size() == 100);
  for (const auto& [x, y] : kept) CHECK(y == Approx(2));
}

TEST_CASE("a moving mean keeps each place, and takes fewer neighbours at both ends") {
  const std::vector<Point> points{{0, 1}, {1, 5}, {2, std::nan("")}, {3, 3}, {4, 7}};
  CHECK(smoothed(points, 3) == std::vector<Point>{{0, 3}, {1, 3}, {3, 5}, {4, 5}});
  CHECK(smoothed(points, 1) == std::vector<Point>{{0, 1}, {1, 5}, {3, 3}, {4, 7}});
  CHECK(smoothed({}, 3).empty());
}

}  // namespace numbers_test
