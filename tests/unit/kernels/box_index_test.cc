#include "kernels/box_index.h"

#include <capstan_catch.h>

#include <utility>
#include <vector>

namespace box_index_test {

using capstan::kernels::BoxIndex;

namespace {

/// The box [2, 3, 4] at (1, 0, 4) of a tensor [4, 3, 12].
BoxIndex slice() { return {3, {2, 3, 4}, {36, 12, 1}, 36 + 4}; }

/// Where its elements are in the tensor, by three loops.
std::vector<std::int64_t> expected() {
  std::vector<std::int64_t> places;
  for (std::int64_t i = 1; i < 3; ++i) {
    for (std::int64_t j = 0; j < 3; ++j) {
      for (std::int64_t k = 4; k < 8; ++k) places.push_back((i * 3 + j) * 12 + k);
    }
  }
  return places;
}

}  // namespace

TEST_CASE("a box's elements are where the tensor has them") {
  const auto places = expected();
  for (std::size_t i = 0; i < places.size(); ++i) CHECK(slice()(static_cast<std::int64_t>(i)) == places[i]);
  CHECK(slice().run() == 4);
}

TEST_CASE("runs cover a part of a box once, in order, each of neighbours in the tensor") {
  const auto places = expected();
  const auto all = static_cast<std::int64_t>(places.size());
  for (const auto& [begin, end] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{0, all}, {3, 21}, {5, 7}, {6, 6}}) {
    std::int64_t next = begin;
    slice().for_each_run(begin, end, [&](std::int64_t local, std::int64_t logical, std::int64_t length) {
      CHECK(local == next);
      REQUIRE(length > 0);
      for (std::int64_t i = 0; i < length; ++i) CHECK(places[static_cast<std::size_t>(local + i)] == logical + i);
      next = local + length;
    });
    CHECK(next == end);
  }
}

TEST_CASE("groups are aligned where the box, its rows and the tensor's rows begin at whole groups") {
  CHECK(slice().aligned(4));
  CHECK(slice().aligned(2));
  CHECK_FALSE(slice().aligned(8));                          // rows of 4
  CHECK_FALSE(BoxIndex{2, {2, 4}, {12, 1}, 2}.aligned(4));  // the box begins at 2
  CHECK_FALSE(BoxIndex{2, {2, 4}, {10, 1}, 0}.aligned(4));  // rows of 10
  CHECK(BoxIndex{1, {8}, {1}, 8}.aligned(8));
}

}  // namespace box_index_test
