// quantise.h's kernels on tensors.
#include <torch/library.h>
#include <capstan/ops/launch.cuh>

#include "kernels.h"
#include "operators.h"

namespace fp8 {
namespace {

using capstan::ops::cuda::launch;

constexpr auto not_taken = "fp8's kernels do not take these tensors";

kernels::QuantiseCall call_for(const at::Tensor& x, at::ScalarType format, bool by_row) {
  kernels::QuantiseCall call{};
  call.x = x.const_data_ptr();
  call.is_bfloat16 = x.scalar_type() == at::kBFloat16;
  call.batch = x.dim() == 3 ? x.size(0) : 1;
  call.rows = x.size(-2);
  call.columns = x.size(-1);
  call.padded_rows = rounded_up(call.rows, quantised_multiple);
  call.whole = !by_row;
  call.e5m2 = format == at::kFloat8_e5m2;
  return call;
}

Pair into(kernels::QuantiseCall& call, Pair made) {
  call.values = std::get<0>(made).data_ptr();
  call.scales = std::get<1>(made).data_ptr<float>();
  return made;
}

at::Tensor found_magnitudes(const at::Tensor& x, kernels::QuantiseCall call, bool transposed) {
  at::Tensor out = empty_scales(x, !call.whole, transposed);
  if (transposed || call.whole) {
    call.column_magnitudes = out.zero_().data_ptr<float>();
    launch(kernels::column_magnitudes, call);
  } else {
    call.scales = out.data_ptr<float>();
    launch(kernels::row_magnitudes, call);
  }
  return out;
}

at::Tensor magnitudes_cuda(const at::Tensor& x, bool by_row, bool transposed) {
  const c10::cuda::CUDAGuard guard(x.device());
  TORCH_CHECK(kernels_take(x), not_taken);
  const at::Tensor in = packed(x);
  return found_magnitudes(in, call_for(in, at::kFloat8_e4m3fn, by_row), transposed);
}

/// Without magnitudes each row finds its own.
Pair quantised_rows(const at::Tensor& x, kernels::QuantiseCall call, at::ScalarType format,
                    const at::Tensor& magnitudes) {
  auto out = into(call, empty_quantised(x, format, !call.whole, false));
  if (magnitudes.defined()) call.magnitudes = magnitudes.const_data_ptr<float>();
  launch(kernels::quantise_rows, call);
  return out;
}

/// Without magnitudes each column finds its own, by a pass more where a column's thread blocks cannot agree on the way.
Pair quantised_columns(const at::Tensor& x, kernels::QuantiseCall call, at::ScalarType format,
                       const at::Tensor& given) {
  auto out = into(call, empty_quantised(x, format, !call.whole, true));
  const bool finds = !given.defined() && kernels::finds_columns(call);
  const at::Tensor magnitudes = finds || given.defined() ? given : found_magnitudes(x, call, true);
  if (!finds) call.magnitudes = magnitudes.const_data_ptr<float>();
  launch(kernels::quantise_columns, call);
  return out;
}

Pair quantise_cuda(const at::Tensor& x, const Maybe& given, at::ScalarType format, bool by_row, bool transposed,
                   const Maybe& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  TORCH_CHECK(kernels_take(x), not_taken);
  const at::Tensor in = packed(x);
  auto call = call_for(in, format, by_row);
  call.counts = counts_of(counts);
  at::Tensor largest = given ? given->contiguous() : at::Tensor();
  if (!given && call.whole) largest = found_magnitudes(in, call, transposed);
  return transposed ? quantised_columns(in, call, format, largest) : quantised_rows(in, call, format, largest);
}

Both quantise_both_cuda(const at::Tensor& x, at::ScalarType format, bool by_row, const Maybe& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  TORCH_CHECK(kernels_take(x), not_taken);
  const at::Tensor in = packed(x);
  auto call = call_for(in, format, by_row);
  call.counts = counts_of(counts);
  const at::Tensor all = call.whole ? found_magnitudes(in, call, false) : at::Tensor();
  return std::tuple_cat(quantised_rows(in, call, format, all), quantised_columns(in, call, format, all));
}

Pair quantise_swiglu_cuda(const at::Tensor& x, at::ScalarType format, bool by_row, const Maybe& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  TORCH_CHECK(kernels_take_swiglu(x, by_row), not_taken);
  const at::Tensor in = packed(x);
  auto call = call_for(in, format, true);
  call.columns /= 2;
  call.counts = counts_of(counts);
  auto out = into(call, empty_quantised(in.narrow(1, 0, call.columns), format, true, false));
  launch(kernels::quantise_swiglu, call);
  return out;
}

Pair quantise_swiglu_backward_cuda(const at::Tensor& gradient, const at::Tensor& x, at::ScalarType format, bool by_row,
                                   const Maybe& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  TORCH_CHECK(kernels_take_swiglu(x, by_row) && gradient.scalar_type() == x.scalar_type(), not_taken);
  const at::Tensor in = packed(x), g = packed(gradient);
  auto call = call_for(in, format, true);
  call.columns /= 2;
  call.counts = counts_of(counts);
  auto out = into(call, empty_quantised(in, format, true, false));
  launch(kernels::quantise_swiglu_backward, call, g.const_data_ptr());
  return out;
}

}  // namespace

TORCH_LIBRARY_IMPL(capstan, CUDA, m) {
  m.impl("magnitudes", &magnitudes_cuda);
  m.impl("quantise", &quantise_cuda);
  m.impl("quantise_both", &quantise_both_cuda);
  m.impl("quantise_swiglu", &quantise_swiglu_cuda);
  m.impl("quantise_swiglu_backward", &quantise_swiglu_backward_cuda);
}

}  // namespace fp8
