#include "forward.h"

#include <ATen/ATen.h>
#include <capstan/ops/grouped.h>
#include <capstan/ops/philox.h>
#include <capstan/ops/random.h>

namespace lora {

using namespace capstan;

std::int64_t Beside::features(const layout::Param& record) const {
  const auto size = record.compute.box(record.shape, mesh, rank).size;
  return size.back() == 0 ? 0 : layout::numel(size) / size.back();
}

// The mask is the one of the whole row of features, of which this rank may hold a part. A router sees tokens as rows.
at::Tensor Beside::dropped(const at::Tensor& x) const {
  const auto& batch = unit->batch();
  if (adapter().dropout == 0 || !batch.training) return x;
  const auto& down = adapter().down->records().front();
  const auto box = down.compute.box(down.shape, mesh, rank);
  const auto rows = batch.tokens.size(0), columns = batch.tokens.size(1);
  const auto in_rows = x.view({rows, columns, x.size(-1)});
  // An element of the mask is one of its sample's, wherever packing has put that.
  const auto by_sample = batch.documents ? batch.documents->apart(in_rows) : in_rows;
  ops::DropoutKey key;
  key.seed = batch.seed;
  key.step = batch.step;
  key.site = ops::stable_hash(adapter().module + ".lora_dropout");
  key.sample_ids = batch.documents ? batch.documents->sample_ids : batch.sample_ids;
  key.row_shape = {by_sample.size(1), down.shape.back()};
  key.row_offset = {0, box.offset.back()};
  const auto dropped = ops::dropout(by_sample, adapter().dropout, key);
  return (batch.documents ? batch.documents->together(dropped, rows, columns) : dropped).view_as(x);
}

at::Tensor Beside::add_to(const at::Tensor& y, const at::Tensor& x) const {
  const auto inner = at::linear(dropped(x), adapter().down->value()).flatten(0, -2);
  const auto up = adapter().up->value().flatten(0, -2);
  auto columns = y.view({-1, y.size(-1)});
  if (!adapter().covers_base()) {
    std::int64_t begin = 0;
    for (std::size_t part = 0; part < adapter().parts.front(); ++part)
      begin += features(adapter().base->records()[part]);
    columns = columns.narrow(1, begin, up.size(0));
  }
  columns.addmm_(inner, up.t(), 1, adapter().scale());
  return y;
}

at::Tensor Beside::add_to_grouped(const at::Tensor& y, const at::Tensor& rows, const at::Tensor& ends) const {
  const auto inner = ops::grouped_linear(rows, adapter().down->value(), ends);
  return y.add(ops::grouped_linear(inner, adapter().up->value().flatten(1, -2), ends), adapter().scale());
}

}  // namespace lora
