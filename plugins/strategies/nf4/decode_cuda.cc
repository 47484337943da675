// The operator's CUDA side: tensors in, a launch out.
#include <ATen/core/Tensor.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include "decode.h"

namespace nf4 {
namespace {

FloatType type_of(const at::Tensor& x) {
  switch (x.scalar_type()) {
    case at::kDouble:
      return FloatType::float64;
    case at::kFloat:
      return FloatType::float32;
    case at::kBFloat16:
      return FloatType::bfloat16;
    default:
      TORCH_CHECK(x.scalar_type() == at::kHalf, "nf4 decodes to float types: ", x.scalar_type());
      return FloatType::half;
  }
}

// `parts`: map, codes, magnitudes, nested, offsets, as Codec::decode has them.
void decode_cuda(const at::Tensor& values, at::TensorList parts) {
  const c10::cuda::CUDAGuard guard(values.device());
  if (values.numel() == 0) return;
  DecodeCall call{};
  call.out = values.data_ptr();
  call.type = type_of(values);
  call.matrices = values.size(0);
  call.elements = values.size(1);
  call.apart = values.stride(0);
  call.map = parts[0].const_data_ptr<float>();
  call.codes = parts[1].const_data_ptr<std::uint8_t>();
  call.magnitudes = parts[2].const_data_ptr<std::uint8_t>();
  call.nested = parts[3].const_data_ptr<float>();
  call.offsets = parts[4].const_data_ptr<float>();
  decode(call, c10::cuda::getCurrentCUDAStream().stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("nf4_decode", &decode_cuda); }

}  // namespace nf4
