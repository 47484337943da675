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

}  // namespace numbers_test
