#include "operators.h"

#include <torch/library.h>

namespace fp8 {
namespace {

Pair quantise_meta(const at::Tensor& x, const Maybe&, at::ScalarType format, bool by_row, bool transposed,
                   const Maybe& /*counts*/) {
  return empty_quantised(x, format, by_row, transposed);
}

Both quantise_both_meta(const at::Tensor& x, at::ScalarType format, bool by_row, const Maybe& /*counts*/) {
  return std::tuple_cat(empty_quantised(x, format, by_row, false), empty_quantised(x, format, by_row, true));
}

Pair quantise_swiglu_meta(const at::Tensor& x, at::ScalarType format, bool by_row, const Maybe&) {
  return empty_quantised(x.narrow(-1, 0, x.size(-1) / 2), format, by_row, false);
}

Pair quantise_swiglu_backward_meta(const at::Tensor&, const at::Tensor& x, at::ScalarType format, bool by_row,
                                   const Maybe&) {
  return empty_quantised(x, format, by_row, false);
}

Pair quantise_blocks_meta(const at::Tensor& x, const Maybe& /*counts*/) {
  return empty_blocks(x, padded_to_blocks(x.size(0)), x.size(1));
}

Both quantise_blocks_both_meta(const at::Tensor& x, const Maybe& counts) {
  return std::tuple_cat(quantise_blocks_meta(x, counts), empty_blocks(x, x.size(1), padded_to_blocks(x.size(0))));
}

Pair quantise_tiles_meta(const at::Tensor& w, bool transposed) {
  return transposed ? empty_tiles(w, w.size(1), w.size(0)) : empty_tiles(w, w.size(0), w.size(1));
}

Pair quantise_swiglu_blocks_meta(const at::Tensor& x, const Maybe& counts) {
  return quantise_blocks_meta(x.narrow(1, 0, x.size(1) / 2), counts);
}

Pair quantise_swiglu_blocks_backward_meta(const at::Tensor&, const at::Tensor& x, const Maybe& counts) {
  return quantise_blocks_meta(x, counts);
}

at::Tensor transposed_meta(const at::Tensor& values, const at::Tensor&, const at::Tensor&) {
  return at::empty_like(values.transpose(-1, -2), at::MemoryFormat::Contiguous);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("magnitudes(Tensor x, bool by_row, bool transposed) -> Tensor");
  m.def(
      "quantise(Tensor x, Tensor? magnitudes, ScalarType format, bool by_row, bool transposed, Tensor(a!)? counts) -> "
      "(Tensor, Tensor)");
  m.def(
      "quantise_both(Tensor x, ScalarType format, bool by_row, Tensor(a!)? counts) -> (Tensor, Tensor, Tensor, "
      "Tensor)");
  m.def("quantise_swiglu(Tensor x, ScalarType format, bool by_row, Tensor(a!)? counts) -> (Tensor, Tensor)");
  m.def(
      "quantise_swiglu_backward(Tensor gradient, Tensor x, ScalarType format, bool by_row, Tensor(a!)? counts) -> "
      "(Tensor, Tensor)");
  m.def("quantise_blocks(Tensor x, Tensor(a!)? counts) -> (Tensor, Tensor)");
  m.def("quantise_blocks_both(Tensor x, Tensor(a!)? counts) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def("quantise_tiles(Tensor w, bool transposed) -> (Tensor, Tensor)");
  m.def("quantise_swiglu_blocks(Tensor x, Tensor(a!)? counts) -> (Tensor, Tensor)");
  m.def("quantise_swiglu_blocks_backward(Tensor gradient, Tensor x, Tensor(a!)? counts) -> (Tensor, Tensor)");
  m.def("fp8_transposed(Tensor values, Tensor row_scales, Tensor column_scales) -> Tensor");
}

TORCH_LIBRARY_IMPL(capstan, Meta, m) {
  m.impl("magnitudes", &empty_scales);
  m.impl("quantise", &quantise_meta);
  m.impl("quantise_both", &quantise_both_meta);
  m.impl("quantise_swiglu", &quantise_swiglu_meta);
  m.impl("quantise_swiglu_backward", &quantise_swiglu_backward_meta);
  m.impl("quantise_blocks", &quantise_blocks_meta);
  m.impl("quantise_blocks_both", &quantise_blocks_both_meta);
  m.impl("quantise_tiles", &quantise_tiles_meta);
  m.impl("quantise_swiglu_blocks", &quantise_swiglu_blocks_meta);
  m.impl("quantise_swiglu_blocks_backward", &quantise_swiglu_blocks_backward_meta);
  m.impl("fp8_transposed", &transposed_meta);
}

}  // namespace fp8
