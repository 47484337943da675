// ALiBi's bias on a GPU, and which GPUs take it.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <torch/library.h>

#include "ops/cuda_kernels.h"
#include "ops/cuda_tensors.h"
#include "ops/trial.h"

namespace capstan::ops::cuda {
namespace {

at::Tensor alibi_bias_cuda(const at::Tensor& slopes, std::int64_t length, at::ScalarType type) {
  const c10::cuda::CUDAGuard guard(slopes.device());
  at::Tensor out = at::empty({1, slopes.size(0), length, length}, slopes.options().dtype(type));
  if (out.numel() == 0) return out;
  alibi_bias(out.data_ptr(), float_type(out), slopes.const_data_ptr<float>(), static_cast<int>(slopes.size(0)),
             static_cast<int>(length), c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

bool takes_bias_cuda(const at::Tensor& fused) {
  if (!on_trial("bias")) return false;
  constexpr int hopper = 9;
  int major = 0;
  C10_CUDA_CHECK(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, fused.get_device()));
  return major == hopper && at::globalContext().userEnabledCuDNNSDP();
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("alibi_bias", &alibi_bias_cuda);
  m.impl("takes_alibi_bias", &takes_bias_cuda);
}

}  // namespace capstan::ops::cuda
