#include "ops/launch.cuh"
#include "ops/make_box.h"
#include "ops/philox_bits.h"

namespace capstan::ops::cuda {
namespace {

void fill_normal_cuda(const at::Tensor& out, double mean, double std, std::int64_t key, at::IntArrayRef logical_shape,
                      at::IntArrayRef offsets) {
  const c10::cuda::CUDAGuard guard(out.device());
  launch(kernels::fill_normal, out.data_ptr(), float_type(out), out.numel(),
         make_box(out.sizes(), logical_shape, offsets), mean, std, key_from_bits(key));
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("fill_normal", &fill_normal_cuda); }

}  // namespace capstan::ops::cuda
