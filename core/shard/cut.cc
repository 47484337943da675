#include "shard/cut.h"

#include <algorithm>

namespace capstan::shard {
namespace {

std::int64_t product(const layout::Shape& shape, std::size_t begin, std::size_t end) {
  std::int64_t out = 1;
  for (auto d = begin; d < end; ++d) out *= shape[d];
  return out;
}

}  // namespace

std::int64_t padded(std::int64_t elements) { return (elements + 63) / 64 * 64; }

at::Tensor Piece::of_whole(const at::Tensor& flat) const {
  if (blocks == 1) return flat.narrow(0, in_whole, numel);
  return flat.as_strided({blocks, numel / blocks}, {block_apart, 1}, flat.storage_offset() + in_whole);
}

at::Tensor Piece::of_chunk(const at::Tensor& flat) const {
  const auto part = flat.narrow(0, in_chunk, numel);
  return blocks == 1 ? part : part.view({blocks, numel / blocks});
}

Piece Piece::block(std::int64_t i) const {
  const auto each = numel / blocks;
  return {record, in_chunk + i * each, in_whole + i * block_apart, each};
}

WeightCut cut_weight(const nn::Weight& weight, const layout::Mesh& mesh, int rank, int group_size) {
  WeightCut cut;
  cut.ranks = group_size;
  cut.pieces.resize(static_cast<std::size_t>(group_size));
  std::int64_t chunk_offset = 0;
  std::int64_t rows_so_far = 0;
  for (std::size_t i = 0; i < weight.records().size(); ++i) {
    const auto& record = weight.records()[i];
    const auto local = record.compute.box(record.shape, mesh, rank).size;
    const auto dim = local.empty() ? 0 : static_cast<std::size_t>(record.sharded(mesh).cuts.back().dim);
    const std::int64_t rows = local.empty() ? 1 : local[dim];
    const bool empty = layout::numel(local) == 0;
    const auto blocks = empty ? 1 : product(local, 0, dim);
    const auto row_numel = empty ? 0 : product(local, dim + 1, local.size());  // of one block
    const std::int64_t chunk_rows = (rows + group_size - 1) / group_size;
    for (int r = 0; r < group_size; ++r) {
      const auto begin = std::min(r * chunk_rows, rows);
      const auto end = std::min((r + 1) * chunk_rows, rows);
      cut.pieces[static_cast<std::size_t>(r)].push_back({i, chunk_offset, cut.numel + begin * row_numel,
                                                         (end - begin) * row_numel * blocks, blocks, rows * row_numel});
    }
    const bool is_even = rows % group_size == 0 && (blocks == 1 || group_size == 1);
    cut.even = cut.even && is_even;
    cut.in_place = cut.in_place && (is_even || (blocks == 1 && i + 1 == weight.records().size()));
    const auto chunk = chunk_rows * row_numel * blocks;
    cut.strides.push_back(chunk);
    cut.whole_room = std::max(cut.whole_room, cut.numel + group_size * chunk);
    chunk_offset += chunk;
    cut.numel += layout::numel(local);
    rows_so_far += local.empty() ? 1 : local.front();
    if (i == 0) cut.shape = local;
  }
  if (!cut.shape.empty()) cut.shape.front() = rows_so_far;
  cut.chunk_room = padded(chunk_offset);
  cut.whole_room = padded(cut.in_place ? cut.whole_room : cut.numel);
  return cut;
}

}  // namespace capstan::shard
