#pragma once
#include <ATen/ATen.h>

#include <vector>

namespace capstan::shard {

/// Copies or adds lists of tensors in few launches.
struct Moves {
  std::vector<at::Tensor> to;
  std::vector<at::Tensor> from;
  void add(const at::Tensor& destination, const at::Tensor& source) {
    to.push_back(destination);
    from.push_back(source);
  }
  void run(bool write) const {
    if (to.empty()) return;
    if (write) {
      at::_foreach_copy_(to, from);
    } else {
      at::_foreach_add_(to, from);
    }
  }
};

}  // namespace capstan::shard
