#include "ops/table_rows.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

namespace table_rows_test {

using namespace capstan::ops;

TEST_CASE("a marked leaf's gradient is rows, with no id where there is padding") {
  at::manual_seed(4);
  const auto ids = at::tensor({3, 0, 3, 2, 5, 5}, at::kLong).view({2, 3});
  const auto real = at::tensor({1, 1, 1, 1, 0, 0}, at::kLong).view({2, 3}).to(at::kBool);
  const auto gradient = at::randn({2, 3, 4}, at::kDouble) * real.unsqueeze(-1);
  const auto plain = at::randn({6, 4}, at::kDouble).set_requires_grad(true);
  lookup(plain, ids).backward(gradient);
  for (const bool says : {false, true}) {
    INFO(says);
    const auto marked = plain.detach().clone().set_requires_grad(true);
    give_rows(marked);
    const auto rows = lookup(marked, ids, says ? real : at::Tensor());
    CHECK(at::equal(rows, lookup(plain, ids)));
    rows.backward(gradient);
    REQUIRE(marked.grad().is_sparse());
    const auto expected = says ? at::where(real, ids, -1) : ids;
    CHECK(at::equal(marked.grad()._indices(), expected.view({1, 6})));
    const auto sum = at::zeros_like(plain).detach();
    add_rows_(sum, marked.grad()._indices().select(0, 0), marked.grad()._values(), 0);
    CHECK(at::equal(sum, plain.grad()));
  }
}

}  // namespace table_rows_test
