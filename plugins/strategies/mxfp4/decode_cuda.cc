// The operator's CUDA side: tensors in, a launch out.
#include <torch/library.h>
#include <capstan/ops/launch.cuh>

#include "decode.h"
#include "numbers.h"

namespace mxfp4 {
namespace {

// values [matrices, elements], codes [matrices, elements / 2], scales [matrices, elements / 32].
void decode_cuda(const at::Tensor& values, const at::Tensor& codes, const at::Tensor& scales) {
  const c10::cuda::CUDAGuard guard(values.device());
  if (values.numel() == 0) return;
  TORCH_CHECK(codes.is_contiguous() && scales.is_contiguous() && values.size(1) % group == 0,
              "mxfp4 decodes whole groups that lie side by side");
  DecodeCall call{};
  call.out = values.data_ptr();
  call.type = capstan::ops::cuda::float_type(values);
  call.matrices = values.size(0);
  call.elements = values.size(1);
  call.apart = values.stride(0);
  call.codes = codes.const_data_ptr<std::uint8_t>();
  call.scales = scales.const_data_ptr<std::uint8_t>();
  capstan::ops::cuda::launch(decode, call);
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("mxfp4_decode", &decode_cuda); }

}  // namespace mxfp4
