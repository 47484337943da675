#pragma once
// Lists of tensors that one launch reads: which part of which tensor is a block.
#include <capstan/base/host_device.h>

#include <cstdint>

namespace capstan::kernels {

/// Finds which of `count` tensors has block `block`: tensor t has those from first_block[t] up to first_block[t + 1]. A
/// search and not a walk, because one through 64 tensors takes as long as an access to memory.
CAPSTAN_HOST_DEVICE inline int tensor_of(const std::int64_t* first_block, int count, std::int64_t block) {
  int tensor = 0;
  for (int end = count; end - tensor > 1;) {
    const int middle = (tensor + end) / 2;
    if (first_block[middle] <= block) {
      tensor = middle;
    } else {
      end = middle;
    }
  }
  return tensor;
}

/// Elements [begin, begin + count) of one tensor.
struct TensorPart {
  int tensor;
  std::int64_t begin, count;
};

/// Block `block` of a list with the members count, first_block and numel, whose blocks have `size` elements each.
template <class List>
CAPSTAN_HOST_DEVICE TensorPart part_of(const List& list, std::int64_t block, std::int64_t size) {
  const int tensor = tensor_of(list.first_block, list.count, block);
  const std::int64_t begin = (block - list.first_block[tensor]) * size, rest = list.numel[tensor] - begin;
  return {tensor, begin, rest < size ? rest : size};
}

}  // namespace capstan::kernels
