#include "shard/cut.h"

#include <algorithm>

namespace capstan::shard {

std::int64_t padded(std::int64_t elements) { return (elements + 63) / 64 * 64; }

WeightCut cut_weight(const nn::Weight& weight, const layout::Mesh& mesh, int rank, int group_size) {
  WeightCut cut;
  cut.ranks = group_size;
  cut.pieces.resize(static_cast<std::size_t>(group_size));
  std::int64_t chunk_offset = 0;
  std::int64_t rows_so_far = 0;
  for (std::size_t i = 0; i < weight.records().size(); ++i) {
    const auto& record = weight.records()[i];
    const auto local = record.compute.box(record.shape, mesh, rank).size;
    const std::int64_t rows = local.empty() ? 1 : local.front();
    const std::int64_t row_numel = rows == 0 ? 0 : layout::numel(local) / rows;
    const std::int64_t chunk_rows = (rows + group_size - 1) / group_size;
    for (int r = 0; r < group_size; ++r) {
      const auto begin = std::min(r * chunk_rows, rows);
      const auto end = std::min((r + 1) * chunk_rows, rows);
      cut.pieces[static_cast<std::size_t>(r)].push_back(
          {i, chunk_offset, cut.numel + begin * row_numel, (end - begin) * row_numel});
    }
    const bool is_even = rows % group_size == 0;
    cut.even = cut.even && is_even;
    cut.in_place = cut.in_place && (is_even || i + 1 == weight.records().size());
    cut.strides.push_back(chunk_rows * row_numel);
    cut.whole_room = std::max(cut.whole_room, cut.numel + group_size * chunk_rows * row_numel);
    chunk_offset += chunk_rows * row_numel;
    cut.numel += rows * row_numel;
    rows_so_far += rows;
    if (i == 0) cut.shape = local;
  }
  if (!cut.shape.empty()) cut.shape.front() = rows_so_far;
  cut.chunk_room = padded(chunk_offset);
  cut.whole_room = padded(cut.in_place ? cut.whole_room : cut.numel);
  return cut;
}

}  // namespace capstan::shard
