#include "ops/column_sums.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "ops/gradients.h"

namespace column_sums_test {

using namespace capstan::ops;
using capstan::testing::waves;

TEST_CASE("columns are summed in float32 at least, and rounded once") {
  const auto x = waves({70, 6}, 0.1), of = waves({70, 6}, 0.4), mean = waves({70, 1}, 0.2), rstd = waves({70, 1}, 0.9);
  CHECK(at::allclose(column_sums(x), x.sum(0), 1e-13, 1e-13));
  CHECK(at::equal(column_sums(x.to(at::kBFloat16)), x.to(at::kBFloat16).to(at::kFloat).sum(0).to(at::kBFloat16)));
  const auto both = norm_weight_gradients(x, of, mean, rstd);
  CHECK(at::allclose(both.weight, (x * (of - mean) * rstd).sum(0), 1e-13, 1e-13));
  CHECK(at::allclose(both.bias, x.sum(0), 1e-13, 1e-13));
  const auto alone = norm_weight_gradients(x, of, {}, rstd);
  CHECK(at::allclose(alone.weight, (x * of * rstd).sum(0), 1e-13, 1e-13));
  CHECK_FALSE(alone.bias.defined());
}

}  // namespace column_sums_test
