#include "ops/scaled.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <stdexcept>

namespace scaled_test {

using capstan::ops::scaled;

// 1 + 1/256 is 1 in bfloat16, and 1.9921875 times it is nearly 2.
TEST_CASE("the factor is not rounded to the dtype of the numbers: their product is, once") {
  const auto x = at::full({2, 3}, 1.9921875, at::kBFloat16);
  const auto factor = at::full({1}, 1 + 1.0 / 256, at::kFloat);
  const auto out = scaled(x, factor, at::kBFloat16);
  CHECK(out.scalar_type() == at::kBFloat16);
  CHECK(at::equal(out, at::full({2, 3}, 2.0, at::kBFloat16)));
}

TEST_CASE("numbers are scaled to any dtype, in any layout, in the factor's dtype") {
  const auto x = at::arange(1, 13, at::kFloat).div(7).view({3, 4}).t();
  const auto factor = at::full({1}, 1.0 / 3, at::kDouble);
  for (const auto type : {at::kDouble, at::kFloat, at::kHalf}) {
    CHECK(at::equal(scaled(x, factor, type), (x.to(at::kDouble) * factor).to(type)));
  }
}

TEST_CASE("a factor of several elements is a bug") {
  CHECK_THROWS_AS(scaled(at::ones({2}), at::ones({2}), at::kFloat), std::logic_error);
}

}  // namespace scaled_test
