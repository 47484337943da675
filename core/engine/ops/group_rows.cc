#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/ops/grouped.h>

#include <limits>
#include <tuple>

#include "ops/operator.h"

namespace capstan::ops {
namespace {

using Grouped = std::tuple<at::Tensor, at::Tensor, at::Tensor>;

at::Tensor group_counts_cpu(const at::Tensor& group, std::int64_t groups) {
  return at::zeros({groups}, group.options()).scatter_add_(0, group, at::ones_like(group));
}

Grouped group_rows_cpu(const at::Tensor& group, std::int64_t groups) {
  const at::Tensor order = at::argsort(group, /*stable=*/true);
  at::Tensor place = at::empty_like(order).scatter_(0, order, at::arange(order.numel(), order.options()));
  return {order, place, group_counts_cpu(group, groups)};
}

void check(const at::Tensor& group, std::int64_t groups) {
  CAPSTAN_ASSERT(group.dim() == 1 && group.scalar_type() == at::kLong && groups > 0);
  CAPSTAN_ASSERT(group.numel() <= std::numeric_limits<std::int32_t>::max());
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  define(m, "group_counts(Tensor group, int groups) -> Tensor", &group_counts_cpu,
         [](const at::Tensor& group, std::int64_t groups) { return at::empty({groups}, group.options()); });
  define(m, "group_rows(Tensor group, int groups) -> (Tensor, Tensor, Tensor)", &group_rows_cpu,
         [](const at::Tensor& group, std::int64_t groups) -> Grouped {
           return {room_for(group), room_for(group), at::empty({groups}, group.options())};
         });
}

GroupedRows group_rows(const at::Tensor& group, std::int64_t groups) {
  check(group, groups);
  static const auto op = find_operator<decltype(group_rows_cpu)>("capstan::group_rows");
  auto [order, place, counts] = op.call(group.contiguous(), groups);
  return {std::move(order), std::move(place), std::move(counts)};
}

at::Tensor group_counts(const at::Tensor& group, std::int64_t groups) {
  check(group, groups);
  static const auto op = find_operator<decltype(group_counts_cpu)>("capstan::group_counts");
  return op.call(group.contiguous(), groups);
}

}  // namespace capstan::ops
