// BucketParameters of weights that a codec keeps: packed bytes that are gathered and decoded, or bytes of rows.
#include <ATen/ATen.h>

#include "shard/bucket_parameters.h"

namespace capstan::shard {

// Does the source have codes instead of numbers? Then they are taken as they are.
bool BucketParameters::find_coded(std::size_t i, std::size_t record, const layout::Box& box,
                                  const layout::Source& source) {
  if (!plan_.packs()) return false;
  const auto& param = weight(i).records()[record];
  if (box.empty()) {  // the ranks agree on what is read, also those that have nothing of it
    const auto all = param.compute.box(param.shape, shared_.options.mesh, shared_.options.rank);
    const bool is_coded = !nn::coded_in(source, param, all).empty();
    if (is_coded) packing_.coded[{i, record}] = {};
    return is_coded;
  }
  Coded coded{nn::coded_in(source, param, box), 0};
  if (coded.matrices.empty()) return false;
  std::int64_t row = 1;
  for (auto d = box.size.size(); d-- > weight(i).codec()->stacked();) {
    coded.first += box.offset[d] * row;
    row *= param.shape[d];
  }
  coded.first -= plan_.weights[i].packed[record].extents[static_cast<std::size_t>(position())].first_column;
  packing_.coded[{i, record}] = std::move(coded);
  return true;
}

// A unit's values are in memory together for the moment in which they are encoded, as while it computes.
void BucketParameters::encode(const at::Tensor& uncoded) {
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
      const auto& packed = plan_.weights[i].packed[j];
      const auto& extent = packed.extents[static_cast<std::size_t>(position())];
      const auto found = packing_.coded.find({i, j});
      const bool is_coded = found != packing_.coded.end();
      if (extent.numel() == 0 && (is_coded || !packed.divided)) continue;
      const auto to = on_device.narrow(0, packed.begin, weight(i).codec()->bytes(extent));
      if (is_coded) {
        const auto& [matrices, first] = found->second;
        dynamic_cast<const nn::CodecFiles&>(*weight(i).codec()).read(extent, first, matrices, to);
        continue;
      }
      weight(i).codec()->encode(extent, fill_target(i, j, uncoded).view({extent.matrices, extent.elements}), to,
                                packed.divided ? divided : whole);
    }
  }
  if (on_device.data_ptr() != packed_.data_ptr()) packed_.copy_(on_device);
  packing_.coded.clear();
}

// Each rank knows the scales of the rows that it has read, and needs all that it will compute with.
void BucketParameters::encode_rows(const at::Tensor& uncoded) {
  for (std::size_t i = 0; i < plan_.weights.size(); ++i) {
    const auto& planned = plan_.weights[i];
    const auto& sharding = planned.sharding;
    const auto columns = sharding.shape.back();
    const auto scales =
        at::zeros({sharding.numel / columns}, at::TensorOptions().dtype(at::kFloat).device(shared_.device()));
    for (std::size_t j = 0; j < weight(i).records().size(); ++j) {
      const auto own = encode_record(i, j, uncoded);
      if (own.numel() == 0) continue;
      auto rows = plan_.shards(planned, plan_.gathers() ? position() : 0)[j];
      rows.in_full /= columns;
      rows.block_apart /= columns;
      rows.numel = own.numel();
      if (!plan_.gathers()) rows.blocks = 1;
      const auto place = rows.of_full(scales);
      place.copy_(own.view_as(place));
    }
    if (plan_.gathers() && plan_.ranks > 1) group_->all_reduce(scales, comm::ReduceOp::sum, label_);
    static_cast<const nn::RowCodec&>(*weight(i).codec()).keep(scales);
  }
}

// The scales of a record's rows on this rank.
at::Tensor BucketParameters::encode_record(std::size_t i, std::size_t record, const at::Tensor& uncoded) {
  const auto columns = plan_.weights[i].sharding.shape.back();
  const auto values = fill_target(i, record, uncoded).view({-1, columns});
  const auto kept = record_of(i, record, master_slice(i, true)).view({-1, columns});
  const auto bytes = kept.device() == values.device() ? kept : at::empty_like(kept, values.device());
  if (values.numel() == 0) return at::empty({0}, values.options().dtype(at::kFloat));
  auto scales = static_cast<const nn::RowCodec&>(*weight(i).codec()).encode_rows(values, bytes);
  if (!kept.is_same(bytes)) kept.copy_(bytes);
  return scales;
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
    group_->all_gather({all}, {mine}, label_);
  }
  for (std::size_t i = 0; i < leaves_.size(); ++i) {
    const auto& planned = plan_.weights[i];
    for (int r = 0; r < plan_.ranks; ++r) {
      for (std::size_t j = 0; j < planned.packed.size(); ++j) {
        const auto& packed = planned.packed[j];
        const auto& extent = packed.extents[static_cast<std::size_t>(r)];
        if (extent.numel() == 0) continue;
        const auto& shard = plan_.shards(planned, r)[j];
        const auto apart = plan_.ranks > 1 && shard.blocks > 1 ? shard.block_apart : extent.elements;
        const auto values = leaves_[i].alias.as_strided({extent.matrices, extent.elements}, {apart, 1},
                                                        leaves_[i].alias.storage_offset() + shard.in_full);
        const auto& codec = *weight(i).codec();
        codec.decode(extent, all.narrow(0, r * plan_.packed_bytes() + packed.begin, codec.bytes(extent)), values);
      }
    }
  }
}

}  // namespace capstan::shard
