// The operator's CUDA side: tensors in, a launch out.
#include <torch/library.h>
#include <capstan/ops/launch.cuh>

#include "decode.h"
#include "places.h"

namespace nf4 {
namespace {

// `bytes` of the extent that `values` [matrices, elements] has, as Codec::decode gets them; the rest is InWhole's.
void decode_cuda(const at::Tensor& values, const at::Tensor& bytes, std::int64_t run, std::int64_t stride,
                 std::int64_t first) {
  const c10::cuda::CUDAGuard guard(values.device());
  if (values.numel() == 0) return;
  const InWhole in_whole{values.size(1) / run * stride, first, run, stride};
  const auto at = places_of(values.size(0), values.size(1), in_whole.elements);
  TORCH_CHECK(bytes.is_contiguous() && bytes.numel() == at.end, "nf4 decodes all bytes of an extent");
  const auto* begin = bytes.const_data_ptr<std::uint8_t>();
  const auto numbers_at = [&](std::int64_t place) { return reinterpret_cast<const float*>(begin + place); };
  DecodeCall call{};
  call.out = values.data_ptr();
  call.type = capstan::ops::cuda::float_type(values);
  call.matrices = values.size(0);
  call.elements = values.size(1);
  call.apart = values.stride(0);
  call.in_whole = in_whole;
  call.map = numbers_at(0);
  call.codes = begin + at.codes;
  call.magnitudes = begin + at.magnitudes;
  call.nested = numbers_at(at.nested);
  call.offsets = numbers_at(at.offsets);
  capstan::ops::cuda::launch(decode, call);
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) { m.impl("nf4_decode", &decode_cuda); }

}  // namespace nf4
