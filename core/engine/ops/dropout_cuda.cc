#include <capstan/base/error.h>

#include "ops/launch.cuh"
#include "ops/make_box.h"
#include "ops/philox_bits.h"

namespace capstan::ops::cuda {
namespace {

at::Tensor dropout_cuda(const at::Tensor& x, double p, std::int64_t key, std::int64_t step, const Maybe& device_step,
                        const at::Tensor& sample_ids, at::IntArrayRef row_shape, at::IntArrayRef row_offset) {
  const c10::cuda::CUDAGuard guard(x.device());
  const at::Tensor in = x.contiguous(), ids = sample_ids.contiguous(), out = at::empty_like(in);
  if (in.numel() == 0) return out;
  const kernels::DropoutShape shape{in.size(0), in.numel() / in.size(0),
                                    make_box(in.sizes().slice(1), row_shape, row_offset)};
  CAPSTAN_ASSERT(!device_step || device_step->device() == x.device());
  const kernels::DropoutStep now{step, device_step ? device_step->const_data_ptr<std::int64_t>() : nullptr};
  launch(kernels::dropout, out.data_ptr(), in.const_data_ptr(), float_type(in), shape, dropout_rule(p, key), now,
         ids.const_data_ptr<std::int64_t>());
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("dropout", &dropout_cuda); }

}  // namespace capstan::ops::cuda
