#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

void squared_norms_cuda(const at::Tensor& out, at::TensorList xs) {
  const c10::cuda::CUDAGuard guard(out.device());
  for (std::size_t begin = 0; begin < xs.size(); begin += kernels::NormList::capacity) {
    const kernels::NormList list = list_from(xs, begin);
    const at::Tensor sums = at::empty({list.first_block[list.count]}, out.options());
    launch(kernels::squared_norms, list, sums.data_ptr<double>(), out.data_ptr<double>() + begin);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("squared_norms", &squared_norms_cuda); }

}  // namespace capstan::ops::cuda
