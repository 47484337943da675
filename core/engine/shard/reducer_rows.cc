// A table's lookups: rows of gradient that ranks exchange, each adding those of its part of the table.
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <utility>

#include "ops/table_rows.h"
#include "shard/reducer.h"

namespace capstan::shard {

// This rank's rows. With `most` they are padded to that many: the ids of those that it lacks are in no table.
Reducer::Rows Reducer::take_rows(std::int64_t most) {
  const auto leaf = parameters_.full().table_leaf();
  const auto grad = std::exchange(leaf.mutable_grad(), {});
  const auto& record = plan_.weights.front().weight->records().front();
  if (grad.defined() && !grad.is_sparse()) {
    throw Error(
        cat("the gradient of ", record.name, " does not come only from lookups by its nn::Embedding"),
        cat("let another unit of the model use that weight for anything else, or set run.deterministic = true, ",
            "which sums it whole"));
  }
  reached_.front() = reached_.front() || grad.defined();
  Rows rows;
  if (grad.defined()) rows = {grad._indices().select(0, 0), grad._values()};
  const auto count = grad.defined() ? rows.ids.numel() : 0;
  if (most == 0) return rows;
  if (count > most) {
    throw Error(cat("a micro-batch looked up ", count, " rows of ", record.name, ", but has at most ", most, " tokens"),
                "look each token up once, or set run.deterministic = true, which sums the gradient whole");
  }
  Rows padded{at::full({most}, -1, at::TensorOptions(at::kLong).device(leaf.device())),
              at::empty({most, leaf.size(1)}, leaf.options().requires_grad(false))};
  if (count == 0) return padded;
  padded.ids.narrow(0, 0, count).copy_(rows.ids);
  padded.values.narrow(0, 0, count).copy_(rows.values);
  return padded;
}

void Reducer::add_rows(const Reduction& how) {
  if (!plan_.trainable) return;
  const at::NoGradGuard no_grad;
  if (!how.sums) {
    const auto rows = take_rows(0);
    if (rows.ids.defined()) ops::add_rows_(parts_of_full_.front(), rows.ids, rows.values, 0);
    return;
  }
  shared_.apart([this, how, own = take_rows(plan_.gradients.table->rows)] { add_all_rows(how, own); });
}

void Reducer::add_all_rows(const Reduction& how, const Rows& own) {
  const at::NoGradGuard no_grad;
  const auto& planned = plan_.weights.front();
  const auto columns = planned.sharding.shape.back();
  const Rows all{at::empty({plan_.ranks * own.ids.numel()}, own.ids.options()),
                 at::empty({plan_.ranks * own.values.size(0), columns}, own.values.options())};
  held_.insert(held_.end(), {own.ids, own.values, all.ids, all.values});
  const SideStream::Use on_stream(shared_.streams.reduce);
  auto& group = parameters_.group();
  group.all_gather(all.ids, own.ids, cat("all-gather ids ", label_));
  group.all_gather(all.values, own.values, cat("all-gather rows ", label_));
  const auto shard = planned.sharding.shard(0, is_sharded() ? parameters_.position() : 0);
  if (plan_.gradients.only_looked_up() && !is_accumulated() && how.first) slice(0).zero_();
  const auto to = is_sharded() ? owned(0, shard).view({-1, columns}) : parts_of_full_.front();
  ops::add_rows_(to, all.ids, all.values, is_sharded() ? shard.in_full / columns : 0);
  read_.record(shared_.device());
  done_.record(shared_.device());
}

}  // namespace capstan::shard
