#include <ATen/ATen.h>
#include <capstan/ops/grouped.h>
#include <capstan_catch.h>

namespace group_rows_test {

using namespace capstan::ops;

TEST_CASE("group_rows sorts rows by group and keeps their order within one") {
  const at::Tensor group = at::tensor({3, 0, 5, 3, 3, 0, 1}, at::kLong);
  const auto [order, place, counts] = group_rows(group, 6);
  CHECK(at::equal(order, at::tensor({1, 5, 6, 0, 3, 4, 2}, at::kLong)));
  CHECK(at::equal(place, at::tensor({3, 0, 6, 4, 5, 1, 2}, at::kLong)));
  CHECK(at::equal(counts, at::tensor({2, 1, 0, 3, 0, 1}, at::kLong)));
  CHECK(at::equal(group_counts(group, 6), counts));
  const auto none = group_rows(group.narrow(0, 0, 0), 2);
  CHECK(none.order.numel() == 0);
  CHECK(at::equal(none.counts, at::zeros({2}, at::kLong)));
}

TEST_CASE("group_rows on the meta device has the shapes") {
  const at::Tensor group = at::empty({7}, at::TensorOptions(at::kLong).device(at::kMeta));
  const auto [order, place, counts] = group_rows(group, 3);
  CHECK(order.sizes() == group.sizes());
  CHECK(place.sizes() == group.sizes());
  CHECK(counts.sizes() == at::IntArrayRef({3}));
  CHECK(group_counts(group, 3).sizes() == counts.sizes());
}

}  // namespace group_rows_test
