#include "comm/in_flight.h"

#include <capstan_catch.h>

#include <vector>

namespace in_flight_test {

using capstan::comm::InFlight;

TEST_CASE("small reductions are in flight together, a large one by itself") {
  InFlight in_flight;
  std::vector<std::size_t> freed;
  const auto begin = [&](std::size_t bucket, std::int64_t elements) {
    freed.clear();
    in_flight.begin(bucket, elements, [&](std::size_t done) { freed.push_back(done); });
    return freed;
  };
  using Freed = std::vector<std::size_t>;
  constexpr auto third = InFlight::most_elements / 3;
  CHECK(begin(0, third).empty());
  CHECK(begin(1, third).empty());
  CHECK(begin(2, third).empty());
  CHECK(begin(3, third) == Freed{0});
  CHECK(begin(4, 10 * third) == Freed{1, 2, 3});
  CHECK(begin(5, 1) == Freed{4});
  in_flight.clear();
  CHECK(begin(6, 3 * third).empty());
}

}  // namespace in_flight_test
