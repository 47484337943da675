#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

void add_lists_cuda(at::TensorList to, at::TensorList from) {
  const c10::cuda::CUDAGuard guard(to.front().device());
  for (std::size_t begin = 0; begin < from.size(); begin += kernels::NormList::capacity) {
    kernels::AddList list{list_from(from, begin), {}};
    for (int i = 0; i < list.from.count; ++i) list.to[i] = to[begin + static_cast<std::size_t>(i)].data_ptr<float>();
    launch(kernels::add_lists, list);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("add_lists_", &add_lists_cuda); }

}  // namespace capstan::ops::cuda
