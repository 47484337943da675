#include "forward.h"

#include <ATen/ATen.h>
#include <capstan/base/philox.h>
#include <capstan/ops/grouped.h>
#include <capstan/ops/random.h>

#include <algorithm>
#include <vector>

namespace lora {

using namespace capstan;

std::int64_t Beside::features(const layout::Param& record) const {
  const auto size = record.compute.box(record.shape, mesh, rank).size;
  return size.back() == 0 ? 0 : layout::numel(size) / size.back();
}

bool Beside::drops() const { return adapter().dropout > 0 && unit->batch().training; }

// The mask belongs to the whole row of features; this rank may hold a part of it.
ops::DropoutKey Beside::key() const {
  const auto& batch = unit->batch();
  const auto& down = adapter().down->records().front();
  ops::DropoutKey key;
  key.seed = batch.seed;
  key.step = batch.step;
  key.device_step = batch.device_step;
  key.site = stable_hash(adapter().module + ".lora_dropout");
  key.row_shape = {down.shape.back()};
  key.row_offset = {down.compute.box(down.shape, mesh, rank).offset.back()};
  return key;
}

at::Tensor Beside::dropped(const at::Tensor& x) const {
  if (!drops()) return x;
  if (router) return dropped_tokens(x);
  const auto& batch = unit->batch();
  const auto in_rows = x.view({batch.tokens.size(0), batch.tokens.size(1), x.size(-1)});
  return nn::drop_columns(in_rows, adapter().dropout, key(), batch).view_as(x);
}

// A router sees tokens as rows: all of them, or for its load those of this rank's positions.
at::Tensor Beside::dropped_tokens(const at::Tensor& x) const {
  const auto& tokens = unit->batch().tokens;
  auto ids = of_tokens();
  if (x.size(0) != ids.size(0)) ids = router->own_positions(ids.view({tokens.size(0), tokens.size(1), 1})).flatten();
  return dropped_rows(x, ids);
}

// Rows of experts stand in an order of the layout's own, on a rank of its choice: each is keyed by what it is.
at::Tensor Beside::dropped_rows(const at::Tensor& rows, const at::Tensor& ids) const {
  if (!drops() || rows.size(0) == 0) return rows;
  auto row = key();
  row.sample_ids = ids;
  return ops::dropout(rows, adapter().dropout, row);
}

at::Tensor Beside::of_tokens() const {
  if (!drops()) return {};
  constexpr std::int64_t positions = 1 << 22;  // more than a sample has: ids of two tokens differ
  const auto& batch = unit->batch();
  const auto& all = batch.part ? *batch.part->whole : batch;
  auto samples = batch.sample_ids.unsqueeze(1);
  if (const auto& documents = all.documents) {
    const auto each = documents->sample_ids.repeat_interleave(documents->longest).index_select(0, documents->alone);
    const auto none = at::zeros({all.tokens.numel()}, each.options());
    samples = batch.own_columns(none.index_copy_(0, documents->packed, each).view_as(all.tokens));
  }
  return (samples * positions + batch.positions).flatten();
}

LowRank Beside::added() const {
  std::int64_t begin = 0;
  if (!adapter().covers_base()) {
    for (std::size_t part = 0; part < adapter().parts.front(); ++part)
      begin += features(adapter().base->records()[part]);
  }
  return {adapter().up->value().flatten(0, -2), adapter().scale(), begin};
}

at::Tensor Beside::add_all(std::span<const Beside> adapters, const at::Tensor& y, const at::Tensor& x) {
  std::vector<at::Tensor> downs;
  std::vector<LowRank> added;
  for (const auto& one : adapters) {
    downs.push_back(one.adapter().down->value());
    added.push_back(one.added());
  }
  return add_low_rank_(y, inner_of(x, downs), added);
}

at::Tensor Beside::add_to(std::span<const Beside> adapters, const at::Tensor& y, const at::Tensor& x) {
  if (std::none_of(adapters.begin(), adapters.end(), [](const auto& one) { return one.drops(); }))
    return add_all(adapters, y, x);
  auto result = y;
  for (const auto& one : adapters) result = add_all({&one, 1}, result, one.dropped(x));
  return result;
}

at::Tensor Beside::add_to_grouped(const at::Tensor& y, const at::Tensor& rows, const at::Tensor& ends,
                                  const at::Tensor& ids) const {
  const auto inner = ops::grouped_linear(dropped_rows(rows, ids), adapter().down->value(), ends);
  return y.add(ops::grouped_linear(inner, adapter().up->value().flatten(1, -2), ends), adapter().scale());
}

}  // namespace lora
