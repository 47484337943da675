#include "hf/merged_source.h"

#include <ATen/ATen.h>

namespace capstan::hf {

using layout::Box;

MergedSource::MergedSource(layout::Source& base, layout::Source& trained,
                           const std::vector<const nn::Adapter*>& adapters)
    : base_(base), trained_(trained) {
  for (const auto* adapter : adapters) {
    for (std::size_t i = 0; i < adapter->parts.size(); ++i)
      adapted_[adapter->base->records()[adapter->parts[i]].name].push_back({adapter, i});
  }
}

bool MergedSource::has(const layout::Param& param) const { return trained_.has(param) || base_.has(param); }

void MergedSource::fill(const layout::Param& param, const Box& box, const at::Tensor& out) {
  auto& source = trained_.has(param) ? trained_ : base_;
  const auto found = adapted_.find(param.name);
  if (found == adapted_.end()) return source.fill(param, box, out);
  const auto type = out.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto value = at::empty(box.size, out.options().dtype(type));
  source.fill(param, box, value);
  for (const auto& beside : found->second) value.add_(added(beside, box, type).to(value.device()));
  out.view(box.size).copy_(value);
}

// scale · B A of a box: dimensions that count matrices are the batch of the product.
at::Tensor MergedSource::added(const Beside& beside, const Box& box, at::ScalarType type) const {
  const auto& adapter = *beside.adapter;
  const auto& down = adapter.down->records().front();
  const auto& up = adapter.up->records()[beside.part];
  const auto last = box.size.size() - 1;
  const auto stacked = static_cast<std::ptrdiff_t>(adapter.stacked);
  Box of_up = box;
  of_up.offset[last] = 0;
  of_up.size[last] = adapter.rank;
  Box of_down{{box.offset.begin(), box.offset.begin() + stacked}, {box.size.begin(), box.size.begin() + stacked}};
  of_down.offset.insert(of_down.offset.end(), {0, box.offset[last]});
  of_down.size.insert(of_down.size.end(), {adapter.rank, box.size[last]});
  const auto read = [&](const layout::Param& record, const Box& part) {
    auto value = at::empty(part.size, type);
    trained_.fill(record, part, value);
    return value;
  };
  std::int64_t matrices = 1;
  for (std::ptrdiff_t d = 0; d < stacked; ++d) matrices *= box.size[static_cast<std::size_t>(d)];
  const auto a = read(down, of_down).view({matrices, adapter.rank, box.size[last]});
  const auto b = read(up, of_up).view({matrices, -1, adapter.rank});
  return (at::bmm(b, a) * adapter.scale()).view(box.size);
}

}  // namespace capstan::hf
