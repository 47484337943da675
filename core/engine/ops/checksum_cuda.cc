#include "ops/launch.cuh"

namespace capstan::ops::cuda {
namespace {

void checksums_cuda(const at::Tensor& out, at::TensorList xs) {
  const c10::cuda::CUDAGuard guard(out.device());
  out.zero_();
  for (std::size_t begin = 0; begin < xs.size(); begin += kernels::NormList::capacity) {
    launch(kernels::add_checksums, list_from(xs, begin), out.data_ptr<std::int64_t>() + begin);
  }
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("checksums", &checksums_cuda); }

}  // namespace capstan::ops::cuda
