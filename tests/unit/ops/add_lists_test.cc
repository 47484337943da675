#include "ops/add_lists.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <stdexcept>
#include <vector>

namespace add_lists_test {

using capstan::ops::add_lists_;

TEST_CASE("lists of several dtypes are added in the dtype of the sums") {
  const std::vector<at::Tensor> to{at::full({3}, 1.0, at::kFloat), at::full({2, 2}, 2.0, at::kDouble)};
  const std::vector<at::Tensor> from{at::full({3}, 1.0 / 256, at::kBFloat16), at::full({2, 2}, 0.5, at::kDouble)};
  add_lists_(to, from);
  CHECK(at::equal(to[0], at::full({3}, 1 + 1.0 / 256, at::kFloat)));  // bfloat16 has no such number
  CHECK(at::equal(to[1], at::full({2, 2}, 2.5, at::kDouble)));
  CHECK_NOTHROW(add_lists_({}, {}));
}

TEST_CASE("lists of other lengths or sizes are a bug") {
  CHECK_THROWS_AS(add_lists_({at::ones({2})}, {}), std::logic_error);
  CHECK_THROWS_AS(add_lists_({at::ones({2})}, {at::ones({3})}), std::logic_error);
}

}  // namespace add_lists_test
