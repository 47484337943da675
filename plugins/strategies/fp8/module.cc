#include <ATen/ATen.h>
#include <torch/library.h>

#include "fp8.h"

namespace {

at::Tensor transposed_meta(const at::Tensor& values, const at::Tensor&, const at::Tensor&) {
  return at::empty_like(values.transpose(-1, -2), at::MemoryFormat::Contiguous);
}

}  // namespace

// Its implementation is in fp8_cuda.so, which ranks that use GPUs open too.
TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("fp8_transposed(Tensor values, Tensor row_scales, Tensor column_scales) -> Tensor");
}

TORCH_LIBRARY_IMPL(capstan, Meta, m) { m.impl("fp8_transposed", &transposed_meta); }

CAPSTAN_STRATEGY("fp8", "0.1.0", "multiplies chosen layers' matrices in 8 bits", fp8::Fp8, fp8::Fp8Options)
