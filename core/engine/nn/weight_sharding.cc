#include "nn/weight_sharding.h"

#include <capstan/nn/codec.h>

#include <algorithm>
#include <numeric>
#include <utility>

namespace capstan::nn {
namespace {

std::int64_t product(const layout::Shape& shape, std::size_t begin, std::size_t end) {
  std::int64_t out = 1;
  for (auto d = begin; d < end; ++d) out *= shape[d];
  return out;
}

// How many elements a codec keeps together; with 1 all may be apart.
std::int64_t grain_of(const nn::Weight& weight) {
  const auto* codec = weight.keeping_codec();
  return codec ? codec->grain() : 1;
}

// Rows of a record's dimension `dim` that one rank has together: a codec keeps something in common of their elements.
std::int64_t rows_together(const nn::Weight& weight, const layout::Param& record, std::size_t dim) {
  const auto grain = grain_of(weight);
  if (grain == 1 || dim < weight.keeping_codec()->stacked()) return 1;
  return grain / std::gcd(grain, product(record.shape, dim + 1, record.shape.size()));
}

}  // namespace

std::int64_t padded(std::int64_t elements) { return (elements + 63) / 64 * 64; }

at::Tensor RecordShard::of_full(const at::Tensor& flat) const {
  if (blocks == 1) return flat.narrow(0, in_full, numel);
  return flat.as_strided({blocks, numel / blocks}, {block_apart, 1}, flat.storage_offset() + in_full);
}

at::Tensor RecordShard::of_shard(const at::Tensor& flat) const {
  const auto part = flat.narrow(0, in_shard, numel);
  return blocks == 1 ? part : part.view({blocks, numel / blocks});
}

RecordShard RecordShard::block(std::int64_t i) const {
  const auto each = numel / blocks;
  return {record, in_shard + i * each, in_full + i * block_apart, each};
}

RecordShard RecordShard::within(std::int64_t begin, std::int64_t end) const {
  const auto from = std::max(in_shard, begin), to = std::max(from, std::min(in_shard + numel, end));
  auto part = *this;
  part.in_shard = from;
  part.in_full += from - in_shard;
  part.numel = to - from;
  CAPSTAN_ASSERT(blocks == 1 || part.numel == 0 || part.numel == numel);
  return part;
}

layout::Box WeightSharding::box(std::size_t record, int position, layout::Box local) const {
  if (local.size.empty()) return local;
  auto& size = local.size[dims[record]];
  const auto begin = std::min(position * rows[record], size);
  size = std::min(rows[record], size - begin);
  local.offset[dims[record]] += begin;
  return local;
}

RecordShard WeightSharding::shard(std::size_t record, int position) const {
  auto part = whole[record];
  const auto begin = std::min(position * rows[record], all_rows[record]);
  const auto end = std::min(begin + rows[record], all_rows[record]);
  const auto row = part.block_apart / std::max<std::int64_t>(1, all_rows[record]);  // elements, in one block
  part.in_full += begin * row;
  part.numel = (end - begin) * row * part.blocks;
  return part;
}

std::vector<RecordShard> WeightSharding::of(int position) const {
  std::vector<RecordShard> all;
  for (std::size_t i = 0; i < whole.size(); ++i) all.push_back(shard(i, position));
  return all;
}

at::Tensor WeightSharding::record_in(const at::Tensor& flat, std::size_t record, std::optional<int> position) const {
  if (!position) return flat.narrow(0, whole[record].in_full, numels[record]);
  const auto own = shard(record, *position);
  return flat.narrow(0, own.in_shard, own.numel);
}

WeightSharding shard_weight(const nn::Weight& weight, const layout::Mesh& mesh, int rank, int group_size) {
  WeightSharding sharding;
  sharding.ranks = group_size;
  std::int64_t shard_offset = 0;
  std::int64_t rows_so_far = 0;
  for (std::size_t i = 0; i < weight.records().size(); ++i) {
    const auto& record = weight.records()[i];
    const auto local = record.compute.box(record.shape, mesh, rank).size;
    const auto dim = local.empty() ? 0 : static_cast<std::size_t>(record.sharded(mesh).cuts.back().dim);
    const auto together = rows_together(weight, record, dim);
    const std::int64_t rows = local.empty() ? 1 : local[dim];
    const bool empty = layout::numel(local) == 0;
    const auto blocks = empty ? 1 : product(local, 0, dim);
    const auto row_numel = empty ? 0 : product(local, dim + 1, local.size());  // elements of a row of one block
    const std::int64_t units = (rows + together - 1) / together;
    const std::int64_t shard_rows = std::min((units + group_size - 1) / group_size * together, rows);
    sharding.whole.push_back({i, shard_offset, sharding.numel, rows * row_numel * blocks, blocks, rows * row_numel});
    sharding.all_rows.push_back(rows);
    const bool is_even = shard_rows * group_size == rows && (blocks == 1 || group_size == 1);
    const bool may_end_in_padding = grain_of(weight) == 1 && blocks == 1 && i + 1 == weight.records().size();
    sharding.even = sharding.even && is_even;
    sharding.in_place = sharding.in_place && (is_even || may_end_in_padding);
    const auto stride = shard_rows * row_numel * blocks;
    sharding.strides.push_back(stride);
    sharding.numels.push_back(layout::numel(local));
    sharding.dims.push_back(dim);
    sharding.rows.push_back(shard_rows);
    sharding.full_elements = std::max(sharding.full_elements, sharding.numel + group_size * stride);
    shard_offset += stride;
    sharding.numel += sharding.numels.back();
    rows_so_far += local.empty() ? 1 : local.front();
    if (i == 0) sharding.shape = local;
  }
  if (!sharding.shape.empty()) sharding.shape.front() = rows_so_far;
  sharding.shard_elements = padded(shard_offset);
  sharding.full_elements = padded(sharding.in_place ? sharding.full_elements : sharding.numel);
  return sharding;
}

}  // namespace capstan::nn
