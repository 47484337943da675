// Blocks of consecutive elements of a record, which ranks' boxes divide or do not.
#include "nn/blocks.h"

#include <capstan/nn/weight.h>
#include <capstan_catch.h>

#include <utility>

namespace blocks_test {

using namespace capstan;

TEST_CASE("blocks are the record's where no box divides one") {
  constexpr std::int64_t block = 4;
  const auto record = [](std::vector<std::int64_t> shape) { return nn::record("w", std::move(shape), {}, true); };
  const layout::Mesh two({{layout::Axis::dp, 2}});
  const auto cut = [](std::size_t dim) {
    layout::Layout layout;
    layout.cuts.push_back({static_cast<std::int64_t>(dim), {layout::Axis::dp}});
    return layout;
  };
  CHECK_FALSE(layout::divides_blocks(record({3, 5}), {}, two, block));  // its last block is short
  CHECK_FALSE(layout::divides_blocks(record({4, 6}), cut(0), two, block));
  CHECK(layout::divides_blocks(record({4, 5}), cut(0), two, block));  // 10 elements each
  CHECK(layout::divides_blocks(record({4, 8}), cut(1), two, block));  // rows of 4 that are not neighbours
  CHECK_FALSE(layout::divides_blocks(record({1, 8}), cut(1), two, block));
  const auto box = layout::block_box(record({4, 6}), {{2, 0}, {2, 6}}, block);
  CHECK(box == layout::Box{{3}, {3}});
}

}  // namespace blocks_test
