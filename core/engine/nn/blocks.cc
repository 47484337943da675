#include "nn/blocks.h"

#include <capstan/base/error.h>

#include <optional>
#include <utility>

namespace capstan::layout {
namespace {

// The range of elements of a box that is contiguous in its record.
std::optional<std::pair<std::int64_t, std::int64_t>> range_of(const Shape& shape, const Box& box) {
  std::int64_t begin = 0;
  std::int64_t stride = 1;
  bool is_whole = true;  // in all dimensions after this one
  for (std::size_t d = shape.size(); d-- > 0;) {
    if (!is_whole && box.size[d] != 1) return {};
    is_whole = is_whole && box.size[d] == shape[d];
    begin += box.offset[d] * stride;
    stride *= shape[d];
  }
  return std::pair(begin, begin + box.numel());
}

}  // namespace

bool divides_blocks(const Param& record, const Layout& layout, const Mesh& mesh, std::int64_t block) {
  for (int rank = 0; rank < mesh.world_size(); ++rank) {
    const auto box = layout.box(record.shape, mesh, rank);
    if (box.empty()) continue;
    const auto range = range_of(record.shape, box);
    if (!range || range->first % block != 0 || (range->second % block != 0 && range->second != record.numel()))
      return true;
  }
  return false;
}

Box block_box(const Param& record, const Box& box, std::int64_t block) {
  const auto range = range_of(record.shape, box);
  CAPSTAN_ASSERT(range && range->first % block == 0);
  return {{range->first / block}, {blocks_in(box.numel(), block)}};
}

std::int64_t blocks_in(std::int64_t elements, std::int64_t block) { return (elements + block - 1) / block; }

}  // namespace capstan::layout
