#include <capstan/base/box.h>

#include <capstan_catch.h>

#include <limits>
#include <stdexcept>

namespace box_test {

using namespace capstan::layout;

TEST_CASE("boxes that only touch share nothing; others share what both hold") {
  const Box left{{0, 0}, {2, 4}};
  CHECK(intersect(left, {{2, 0}, {2, 4}}).empty());
  CHECK(intersect(left, {{1, 3}, {5, 5}}) == Box{{1, 3}, {1, 1}});
  CHECK(intersect(left, left) == left);
  CHECK(intersect(Box::whole({}), Box::whole({})).numel() == 1);  // a scalar
  CHECK_THROWS_AS(intersect(left, Box::whole({2})), std::logic_error);
}

TEST_CASE("a box fits into a shape of as many dimensions, whatever numbers a file gives it") {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  CHECK(Box{{4}, {0}}.fits({4}));
  CHECK_FALSE(Box{{5}, {0}}.fits({4}));
  CHECK_FALSE(Box{{most}, {most}}.fits({4}));
  CHECK_FALSE(Box{{-1}, {2}}.fits({4}));
  CHECK_FALSE(Box{{1}, {-1}}.fits({4}));
  CHECK_FALSE(Box{{0, 0}, {1, 1}}.fits({4}));
  CHECK(Box{{1, 0}, {2, 3}}.text() == "[1:3, 0:3]");
}

}  // namespace box_test
