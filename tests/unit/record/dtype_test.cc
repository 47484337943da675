#include "record/dtype.h"

#include <capstan_catch.h>

#include <limits>

namespace dtype_test {

using namespace capstan::checkpoint;

TEST_CASE("an element type is known by the name that files give it, and by no other") {
  for (const auto dtype : {Dtype::boolean, Dtype::f8_e4m3, Dtype::bf16, Dtype::f32, Dtype::u64}) {
    CHECK(dtype_named(dtype_name(dtype)) == dtype);
  }
  CHECK(dtype_name(Dtype::bf16) == "BF16");
  CHECK(dtype_bytes(Dtype::bf16) == 2);
  CHECK_FALSE(dtype_named("bf16"));
  CHECK_FALSE(dtype_named(""));
}

TEST_CASE("a tensor has no more bytes than a number holds") {
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  CHECK(bytes_of({}, Dtype::f64) == 8);
  CHECK(bytes_of({3, 0}, Dtype::f64) == 0);
  CHECK(bytes_of({most}, Dtype::u8) == most);
  CHECK_FALSE(bytes_of({most}, Dtype::bf16));
  CHECK_FALSE(bytes_of({most, 2}, Dtype::u8));
}

}  // namespace dtype_test
