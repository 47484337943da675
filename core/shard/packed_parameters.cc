// BucketParameters of weights that a codec keeps: bytes that are gathered, and decoded.
#include <ATen/ATen.h>

#include "shard/bucket_parameters.h"

namespace capstan::shard {

// Does the source have codes instead of numbers? Then they are taken as they are.
bool BucketParameters::find_coded(std::size_t i, std::size_t record, const layout::Box& box,
                                  const layout::Source& source) {
  if (!plan_.packs()) return false;
  const auto& param = weight(i).records()[record];
  Coded coded{nn::coded_in(source, param, box), 0};
  if (coded.matrices.empty()) return false;
  std::int64_t row = 1;
  for (auto d = box.size.size(); d-- > weight(i).codec()->stacked();) {
    coded.first += box.offset[d] * row;
    row *= param.shape[d];
  }
  coded.first -= plan_.weights[i].packed[record].extent.first_column;
  packing_.coded[{i, record}] = std::move(coded);
  return true;
}

// A unit's values are in memory together for the moment in which they are encoded, as while it computes.
void BucketParameters::encode() {
  const auto on_device = packed_.device() == shared_.device() ? packed_ : at::empty_like(packed_, shared_.device());
  const auto columns = [&](const at::Tensor& x) {
    if (packing_.tensor_group) packing_.tensor_group->all_reduce(x, comm::ReduceOp::sum, label_);
  };
  const auto all = [&](const at::Tensor& x) {
    group_->all_reduce(x, comm::ReduceOp::sum, label_);
    columns(x);
  };
  const nn::Codec::Sum divided(all, columns), whole(columns, columns);
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    for (std::size_t j = 0; j < plan_.weights[i].packed.size(); ++j) {
      const auto& [extent, is_divided, begin, bytes] = plan_.weights[i].packed[j];
      if (extent.numel() == 0) continue;
      const auto to = on_device.narrow(0, begin, bytes);
      if (const auto found = packing_.coded.find({i, j}); found != packing_.coded.end()) {
        const auto& [matrices, first] = found->second;
        dynamic_cast<const nn::CodecFiles&>(*weight(i).codec()).read(extent, first, matrices, to);
        continue;
      }
      weight(i).codec()->encode(extent, fill_target(i, j).view({extent.matrices, extent.elements}), to,
                                is_divided ? divided : whole);
    }
  }
  if (on_device.data_ptr() != packed_.data_ptr()) packed_.copy_(on_device);
  masters_ = at::Tensor();
  packing_.coded.clear();
}

at::Tensor BucketParameters::packed_slice(std::size_t i) const {
  const auto& records = plan_.weights[i].packed;
  return packed_.narrow(0, records.front().begin, records.back().begin + records.back().bytes - records.front().begin);
}

// Bytes of all ranks, decoded to their place.
void BucketParameters::gather_packed() {
  auto all = packed_.to(shared_.device(), /*non_blocking=*/true);
  if (plan_.ranks > 1) {
    const auto mine = all;
    all = at::empty({plan_.packed_bytes() * plan_.ranks}, mine.options());
    all_gather({all}, {mine});
  }
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const auto& planned = plan_.weights[i];
    for (int r = 0; r < plan_.ranks; ++r) {
      for (std::size_t j = 0; j < planned.packed.size(); ++j) {
        const auto& [extent, is_divided, begin, bytes] = planned.packed[j];
        if (extent.numel() == 0) continue;
        const auto& shard = plan_.shards(planned, r)[j];
        const auto apart = plan_.ranks > 1 && shard.blocks > 1 ? shard.block_apart : extent.elements;
        const auto values = leaves_[i].alias.as_strided({extent.matrices, extent.elements}, {apart, 1},
                                                        leaves_[i].alias.storage_offset() + shard.in_full);
        weight(i).codec()->decode(extent, all.narrow(0, r * plan_.packed_bytes() + begin, bytes), values);
      }
    }
  }
}

}  // namespace capstan::shard
