#include "ops/make_box.h"

#include <capstan_catch.h>

#include <stdexcept>
#include <vector>

namespace make_box_test {

using capstan::ops::make_box;

TEST_CASE("dimensions that are contiguous in the box and in the tensor are merged") {
  const auto whole = make_box({4, 3, 12}, {4, 3, 12}, {0, 0, 0});
  CHECK(whole.dims == 1);
  CHECK(whole.size[0] == 144);
  CHECK(whole.stride[0] == 1);
  CHECK(whole.base == 0);
  const auto part = make_box({2, 3, 4}, {4, 3, 12}, {1, 0, 4});
  REQUIRE(part.dims == 2);
  CHECK(part.size[0] == 6);
  CHECK(part.stride[0] == 12);
  CHECK(part.size[1] == 4);
  CHECK(part.stride[1] == 1);
  CHECK(part.base == 36 + 4);
}

TEST_CASE("a dimension of one element needs no index, and a scalar is one element") {
  const auto row = make_box({1, 4}, {3, 4}, {2, 0});
  CHECK(row.dims == 1);
  CHECK(row.size[0] == 4);
  CHECK(row.stride[0] == 1);
  CHECK(row.base == 8);
  const auto scalar = make_box({}, {}, {});
  CHECK(scalar.dims == 1);
  CHECK(scalar.size[0] == 1);
  CHECK(scalar(0) == 0);
}

TEST_CASE("a box that is outside, empty or of more dimensions than an index holds is a bug") {
  CHECK_THROWS_AS(make_box({3}, {4}, {2}), std::logic_error);
  CHECK_THROWS_AS(make_box({0}, {4}, {0}), std::logic_error);
  CHECK_THROWS_AS(make_box({1}, {4, 4}, {0, 0}), std::logic_error);
  const std::vector<std::int64_t> size(9, 2), shape(9, 3), offset(9, 0);
  CHECK_THROWS_AS(make_box(size, shape, offset), std::logic_error);
}

}  // namespace make_box_test
