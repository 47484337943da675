#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

/// The list of as many tensors from `begin` on as one launch takes.
void fill(kernels::AdamwList& list, std::size_t begin, at::TensorList masters, at::TensorList states,
          at::TensorList gradients, at::TensorList copies) {
  list.count = 0;
  for (std::size_t i = begin; i < masters.size() && list.count < kernels::AdamwList::capacity; ++i, ++list.count) {
    const auto n = masters[i].numel();
    list.master[list.count] = masters[i].data_ptr();
    list.average[list.count] = states[i].data_ptr();
    list.square[list.count] = states[masters.size() + i].data_ptr();
    list.grad[list.count] = gradients[i].const_data_ptr();
    list.copy[list.count] = copies.empty() ? nullptr : copies[i].data_ptr();
    list.numel[list.count] = n;
    list.first_block[list.count + 1] =
        list.first_block[list.count] + (n + kernels::AdamwList::block - 1) / kernels::AdamwList::block;
  }
}

void adamw_lists_cuda(at::TensorList masters, at::TensorList states, at::TensorList gradients, at::TensorList copies,
                      at::ArrayRef<double> step, at::TensorList numbers) {
  const c10::cuda::CUDAGuard guard(masters.front().device());
  const auto number = [&](std::size_t i) { return static_cast<float>(step[i]); };
  const auto on_device = [&](std::size_t i) { return numbers[i].const_data_ptr<float>(); };
  kernels::AdamwList list;
  list.by = {number(0), number(1), number(2), number(3), number(4), on_device(0), on_device(1), on_device(2)};
  const auto gradient_type = float_type(gradients.front());
  const auto narrow =
      gradient_type == kernels::FloatType::half ? kernels::FloatType::half : kernels::FloatType::bfloat16;
  const kernels::AdamwTypes types{float_type(masters.front()), gradient_type,
                                  copies.empty() ? narrow : float_type(copies.front())};
  for (std::size_t begin = 0; begin < masters.size(); begin += kernels::AdamwList::capacity) {
    fill(list, begin, masters, states, gradients, copies);
    launch(kernels::adamw_lists, list, types);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("adamw_lists_", &adamw_lists_cuda); }

}  // namespace capstan::ops::cuda
