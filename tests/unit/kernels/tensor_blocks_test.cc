#include <capstan/kernels/launcher.h>
#include <capstan/kernels/tensor_blocks.h>
#include <capstan_catch.h>

#include <algorithm>

namespace tensor_blocks_test {

namespace {

/// Tensors of these sizes, one with nothing in it, in blocks of 4 elements.
struct List {
  static constexpr std::int64_t size = 4;
  int count = 5;
  std::int64_t numel[5] = {1, 4, 0, 9, 8};
  std::int64_t first_block[6] = {};
  List() {
    for (int i = 0; i < count; ++i) first_block[i + 1] = first_block[i] + capstan::kernels::parts_of(numel[i], size);
  }
};

}  // namespace

TEST_CASE("blocks of a list are all elements of all its tensors, each once and in order") {
  const List list;
  std::int64_t block = 0;
  for (int tensor = 0; tensor < list.count; ++tensor) {
    for (std::int64_t begin = 0; begin < list.numel[tensor]; begin += List::size, ++block) {
      CAPTURE(tensor, begin, block);
      CHECK(capstan::kernels::tensor_of(list.first_block, list.count, block) == tensor);
      const auto part = capstan::kernels::part_of(list, block, List::size);
      CHECK(part.tensor == tensor);
      CHECK(part.begin == begin);
      CHECK(part.count == std::min(List::size, list.numel[tensor] - begin));
    }
  }
  CHECK(block == list.first_block[list.count]);
}

TEST_CASE("a list of one tensor has all blocks in it") {
  const std::int64_t first_block[] = {0, 3};
  for (const std::int64_t block : {0, 1, 2}) CHECK(capstan::kernels::tensor_of(first_block, 1, block) == 0);
}

}  // namespace tensor_blocks_test
