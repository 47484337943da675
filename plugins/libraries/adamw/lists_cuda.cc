// The operator's CUDA side: tensors in, launches out. Part of libcapstan_adamw_cuda.so.
#include <torch/library.h>
#include <capstan/ops/launch.cuh>

#include "kernel.h"

namespace capstan::adamw {
namespace {

using ops::cuda::float_type;

/// The list of as many tensors from `begin` on as one launch takes.
void fill(List& list, std::size_t begin, at::TensorList masters, at::TensorList states, at::TensorList gradients,
          at::TensorList copies) {
  list.count = 0;
  for (std::size_t i = begin; i < masters.size() && list.count < List::capacity; ++i, ++list.count) {
    const auto n = masters[i].numel();
    list.master[list.count] = masters[i].data_ptr();
    list.average[list.count] = states[i].data_ptr();
    list.square[list.count] = states[masters.size() + i].data_ptr();
    list.grad[list.count] = gradients[i].const_data_ptr();
    list.copy[list.count] = copies.empty() ? nullptr : copies[i].data_ptr();
    list.numel[list.count] = n;
    list.first_block[list.count + 1] = list.first_block[list.count] + kernels::parts_of(n, List::block);
  }
}

void adamw_lists_cuda(at::TensorList masters, at::TensorList states, at::TensorList gradients, at::TensorList copies,
                      at::ArrayRef<double> step, at::TensorList numbers) {
  const c10::cuda::CUDAGuard guard(masters.front().device());
  const auto number = [&](std::size_t i) { return static_cast<float>(step[i]); };
  const auto on_device = [&](std::size_t i) { return numbers[i].const_data_ptr<float>(); };
  List list;
  list.by = {number(0), number(1), number(2), number(3), number(4), on_device(0), on_device(1), on_device(2)};
  const auto gradient_type = float_type(gradients.front());
  const auto narrow = gradient_type == FloatType::half ? FloatType::half : FloatType::bfloat16;
  const Types types{float_type(masters.front()), gradient_type, copies.empty() ? narrow : float_type(copies.front())};
  for (std::size_t begin = 0; begin < masters.size(); begin += List::capacity) {
    fill(list, begin, masters, states, gradients, copies);
    ops::cuda::launch(update, list, types);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("adamw_lists_", &adamw_lists_cuda); }

}  // namespace capstan::adamw
