#pragma once
// What the CUDA halves of operators (X_cuda.cc) share: tensors in, launches out. Opened with libcapstan_cuda.
#include <ATen/ATen.h>
#include <capstan/ops/launch.cuh>

#include "kernels/block_sum.h"
#include "kernels/launchers.h"
#include "ops/operator.h"

namespace capstan::ops::cuda {

inline const void* data_of(const Maybe& x) { return x ? x->const_data_ptr() : nullptr; }

/// The list of as many tensors from `begin` on as one launch takes.
inline kernels::NormList list_from(at::TensorList xs, std::size_t begin) {
  kernels::NormList list;
  for (std::size_t i = begin; i < xs.size() && list.count < kernels::NormList::capacity; ++i, ++list.count) {
    list.data[list.count] = xs[i].const_data_ptr();
    list.numel[list.count] = xs[i].numel();
    list.type[list.count] = float_type(xs[i]);
    list.first_block[list.count + 1] = list.first_block[list.count] + kernels::sum_blocks(xs[i].numel());
  }
  return list;
}

}  // namespace capstan::ops::cuda
