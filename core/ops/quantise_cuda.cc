// quantise.h's kernels on tensors.
#include <ATen/ATen.h>
#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <torch/library.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "ops/cuda_tensors.h"
#include "ops/quantise.h"

namespace capstan::ops::cuda {
namespace {

using Maybe = std::optional<at::Tensor>;
using Pair = std::tuple<at::Tensor, at::Tensor>;

CUstream_st* quantise_stream() { return c10::cuda::getCurrentCUDAStream().stream(); }

/// Do the kernels take it? They read packs of 16 bytes; a stack of matrices, and strips of 16 columns, are dimensions
/// of the grid.
bool kernels_take(const at::Tensor& x) {
  constexpr std::int64_t most_matrices = 65535, most_columns = 65535 * 16;
  const auto type = x.scalar_type();
  return (type == at::kBFloat16 || type == at::kFloat) && (x.dim() == 2 || x.dim() == 3) && x.numel() > 0 &&
         x.size(-1) % quantised_multiple == 0 && (x.dim() == 2 || x.size(0) <= most_matrices) &&
         x.size(-1) <= most_columns;
}

/// Contiguous, and at whole 16 bytes.
at::Tensor packed(const at::Tensor& x) {
  constexpr std::uintptr_t pack = 16;
  const at::Tensor in = x.contiguous();
  return reinterpret_cast<std::uintptr_t>(in.const_data_ptr()) % pack == 0 ? in : in.clone();
}

std::int64_t* numbers_of(const Maybe& counts) { return counts ? counts->data_ptr<std::int64_t>() : nullptr; }

kernels::QuantiseCall call_for(const at::Tensor& x, at::ScalarType format, bool by_row) {
  kernels::QuantiseCall call{};
  call.x = x.const_data_ptr();
  call.type = float_type(x);
  call.batch = x.dim() == 3 ? x.size(0) : 1;
  call.rows = x.size(-2);
  call.columns = x.size(-1);
  call.padded_rows = (call.rows + quantised_multiple - 1) / quantised_multiple * quantised_multiple;
  call.whole = !by_row;
  call.e5m2 = format == at::kFloat8_e5m2;
  return call;
}

/// Of x, or of its transpose: [..., rows, columns].
at::Tensor matrix_like(const at::Tensor& x, std::int64_t rows, std::int64_t columns, at::ScalarType type) {
  auto shape = x.sizes().vec();
  shape[shape.size() - 2] = rows;
  shape.back() = columns;
  return at::empty(shape, x.options().dtype(type));
}

at::Tensor numbers_for(const at::Tensor& x, const kernels::QuantiseCall& call, bool transposed) {
  if (call.whole) return at::empty({1, 1}, x.options().dtype(at::kFloat));
  return matrix_like(x, transposed ? call.columns : call.rows, 1, at::kFloat);
}

at::Tensor found_magnitudes(const at::Tensor& x, kernels::QuantiseCall call, bool transposed) {
  at::Tensor out = numbers_for(x, call, transposed);
  if (transposed || call.whole) {
    call.column_magnitudes = out.zero_().data_ptr<float>();
    kernels::column_magnitudes(call, quantise_stream());
  } else {
    call.scales = out.data_ptr<float>();
    kernels::row_magnitudes(call, quantise_stream());
  }
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

at::Tensor magnitudes_cuda(const at::Tensor& x, bool by_row, bool transposed) {
  const c10::cuda::CUDAGuard guard(x.device());
  if (!kernels_take(x)) return plain_magnitudes(x, by_row, transposed);
  const at::Tensor in = packed(x);
  return found_magnitudes(in, call_for(in, at::kFloat8_e4m3fn, by_row), transposed);
}

/// Without magnitudes each row finds its own.
Pair quantised_rows(const at::Tensor& x, kernels::QuantiseCall call, at::ScalarType format,
                    const at::Tensor& magnitudes) {
  const at::Tensor values = at::empty(x.sizes(), x.options().dtype(format)), scales = numbers_for(x, call, false);
  call.values = values.data_ptr();
  call.scales = scales.data_ptr<float>();
  if (magnitudes.defined()) call.magnitudes = magnitudes.const_data_ptr<float>();
  kernels::quantise_rows(call, quantise_stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {values, scales};
}

/// Without magnitudes each column finds its own, by a pass more where a column's thread blocks cannot agree on the way.
Pair quantised_columns(const at::Tensor& x, kernels::QuantiseCall call, at::ScalarType format,
                       const at::Tensor& given) {
  const at::Tensor values = matrix_like(x, call.columns, call.padded_rows, format), scales = numbers_for(x, call, true);
  call.values = values.data_ptr();
  call.scales = scales.data_ptr<float>();
  const bool finds = !given.defined() && kernels::finds_columns(call);
  const at::Tensor magnitudes = finds || given.defined() ? given : found_magnitudes(x, call, true);
  if (!finds) call.magnitudes = magnitudes.const_data_ptr<float>();
  kernels::quantise_columns(call, quantise_stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return {values, scales};
}

Pair quantise_cuda(const at::Tensor& x, const Maybe& given, at::ScalarType format, bool by_row, bool transposed,
                   const Maybe& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  if (!kernels_take(x))
    return plain_quantise(x, given ? *given : plain_magnitudes(x, by_row, transposed), format, transposed, counts);
  const at::Tensor in = packed(x);
  auto call = call_for(in, format, by_row);
  call.counts = numbers_of(counts);
  at::Tensor largest = given ? given->contiguous() : at::Tensor();
  if (!given && call.whole) largest = found_magnitudes(in, call, transposed);
  return transposed ? quantised_columns(in, call, format, largest) : quantised_rows(in, call, format, largest);
}

std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor> quantise_both_cuda(const at::Tensor& x,
                                                                              at::ScalarType format, bool by_row,
                                                                              const Maybe& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  if (!kernels_take(x)) {
    const auto one = [&](bool transposed) {
      return plain_quantise(x, plain_magnitudes(x, by_row, transposed), format, transposed, counts);
    };
    return std::tuple_cat(one(false), one(true));
  }
  const at::Tensor in = packed(x);
  auto call = call_for(in, format, by_row);
  call.counts = numbers_of(counts);
  const at::Tensor all = call.whole ? found_magnitudes(in, call, false) : at::Tensor();
  return std::tuple_cat(quantised_rows(in, call, format, all), quantised_columns(in, call, format, all));
}

/// Are a row's halves of x [m, 2 k] kept by a thread block?
bool takes_swiglu(const at::Tensor& x, bool by_row) {
  const auto columns = x.size(1) / 2;
  return by_row && x.scalar_type() == at::kBFloat16 && x.numel() > 0 && columns % quantised_multiple == 0 &&
         columns <= kernels::most_swiglu_columns;
}

kernels::QuantiseCall swiglu_call(const at::Tensor& x, at::ScalarType format, const Pair& out, const Maybe& counts) {
  auto call = call_for(x, format, true);
  call.counts = numbers_of(counts);
  call.columns /= 2;
  call.values = std::get<0>(out).data_ptr();
  call.scales = std::get<1>(out).data_ptr<float>();
  return call;
}

Pair rows_for(const at::Tensor& x, std::int64_t columns, at::ScalarType format) {
  return {matrix_like(x, x.size(0), columns, format), matrix_like(x, x.size(0), 1, at::kFloat)};
}

Pair quantise_swiglu_cuda(const at::Tensor& x, at::ScalarType format, bool by_row, const Maybe& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  if (!takes_swiglu(x, by_row)) return plain_quantise_swiglu(x, format, by_row, counts);
  const at::Tensor in = packed(x);
  auto out = rows_for(in, in.size(1) / 2, format);
  kernels::quantise_swiglu(swiglu_call(in, format, out, counts), quantise_stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}

Pair quantise_swiglu_backward_cuda(const at::Tensor& gradient, const at::Tensor& x, at::ScalarType format, bool by_row,
                                   const Maybe& counts) {
  const c10::cuda::CUDAGuard guard(x.device());
  if (!takes_swiglu(x, by_row) || gradient.scalar_type() != x.scalar_type())
    return plain_quantise_swiglu_backward(gradient, x, format, by_row, counts);
  const at::Tensor in = packed(x), g = packed(gradient);
  auto out = rows_for(in, in.size(1), format);
  kernels::quantise_swiglu_backward(swiglu_call(in, format, out, counts), g.const_data_ptr(), quantise_stream());
  C10_CUDA_KERNEL_LAUNCH_CHECK();
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

}  // namespace capstan::ops::cuda
