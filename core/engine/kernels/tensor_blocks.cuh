#pragma once
// Lists of tensors that one launch reads: which part of which tensor is a block.
#include <cstdint>

namespace capstan::kernels {

/// Elements [begin, begin + count) of one tensor.
struct TensorPart {
  int tensor;
  std::int64_t begin, count;
};

/// Block `block` of `list`, whose blocks have `size` elements each. A search and not a walk, because one through 64
/// tensors takes as long as an access to memory.
template <class List>
__device__ TensorPart part_of(const List& list, std::int64_t block, std::int64_t size) {
  int tensor = 0;
  for (int end = list.count; end - tensor > 1;) {
    const int middle = (tensor + end) / 2;
    if (list.first_block[middle] <= block) {
      tensor = middle;
    } else {
      end = middle;
    }
  }
  const std::int64_t begin = (block - list.first_block[tensor]) * size, rest = list.numel[tensor] - begin;
  return {tensor, begin, rest < size ? rest : size};
}

}  // namespace capstan::kernels
