#pragma once
// The dispatcher's operators, capstan::…: on Meta in operators.cc, on CUDA in fp8_cuda.so. Who calls one on a GPU asks
// first whether the kernels take its operand, and otherwise makes plain calls of ATen.
#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <cstdint>
#include <optional>
#include <tuple>
#include <utility>

#include "quantise_blocks.h"

namespace fp8 {

using Maybe = std::optional<at::Tensor>;
/// Pair: values and scales. Both: those of a matrix and of its transpose.
using Pair = std::tuple<at::Tensor, at::Tensor>;
using Both = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

using MagnitudesOp = at::Tensor(const at::Tensor& x, bool by_row, bool transposed);
using QuantiseOp = Pair(const at::Tensor& x, const Maybe& magnitudes, at::ScalarType format, bool by_row,
                        bool transposed, const Maybe& counts);
using QuantiseBothOp = Both(const at::Tensor& x, at::ScalarType format, bool by_row, const Maybe& counts);
using QuantiseSwigluOp = Pair(const at::Tensor& x, at::ScalarType format, bool by_row, const Maybe& counts);
using QuantiseSwigluBackwardOp = Pair(const at::Tensor& gradient, const at::Tensor& x, at::ScalarType format,
                                      bool by_row, const Maybe& counts);
using BlocksOp = Pair(const at::Tensor& x, const Maybe& counts);
using BlocksBothOp = Both(const at::Tensor& x, const Maybe& counts);
using TilesOp = Pair(const at::Tensor& w, bool transposed);
using SwigluBlocksBackwardOp = Pair(const at::Tensor& gradient, const at::Tensor& x, const Maybe& counts);
using TransposedOp = at::Tensor(const at::Tensor& values, const at::Tensor& row_scales,
                                const at::Tensor& column_scales);

template <class Signature>
auto operation(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

inline Maybe maybe(const at::Tensor& x) { return x.defined() ? Maybe(x) : std::nullopt; }
inline Quantised quantised_of(const Pair& made) { return {std::get<0>(made), std::get<1>(made)}; }

/// Is x [..., m, k] rounded by plain calls of ATen? On Meta never, whatever a GPU would do.
inline bool is_plain(const at::Tensor& x, bool kernels_take_it) {
  return x.is_cpu() || (x.is_cuda() && !kernels_take_it);
}
/// Core's operators, without autograd, and SwiGLU's number there.
constexpr std::int64_t swiglu = 2;
inline at::Tensor swiglu_of(const at::Tensor& x) {
  static const auto op = operation<at::Tensor(const at::Tensor&, std::int64_t)>("capstan::activation");
  return op.call(x, swiglu);
}
inline at::Tensor swiglu_gradient(const at::Tensor& gradient, const at::Tensor& x) {
  static const auto op =
      operation<at::Tensor(const at::Tensor&, const at::Tensor&, std::int64_t)>("capstan::activation_backward");
  return op.call(gradient, x, swiglu);
}

/// bfloat16 and float32, which kernels read in packs of 16 bytes.
inline bool is_packed_type(const at::Tensor& x) {
  return (x.scalar_type() == at::kBFloat16 || x.scalar_type() == at::kFloat) && x.numel() > 0;
}
/// Do the kernels take x [m, k] or a stack of such? That, and strips of 16 columns, are dimensions of the grid.
inline bool kernels_take(const at::Tensor& x) {
  constexpr std::int64_t most_matrices = 65535, most_columns = most_matrices * 16;
  return is_packed_type(x) && (x.dim() == 2 || x.dim() == 3) && x.size(-1) % quantised_multiple == 0 &&
         (x.dim() == 2 || x.size(0) <= most_matrices) && x.size(-1) <= most_columns;
}
/// … SwiGLU of x [m, 2 k]? A row's halves are kept by a thread block.
inline bool kernels_take_swiglu(const at::Tensor& x, bool by_row) {
  constexpr std::int64_t most_columns = 16384;
  const auto columns = x.size(1) / 2;
  return by_row && x.scalar_type() == at::kBFloat16 && x.numel() > 0 && columns % quantised_multiple == 0 &&
         columns <= most_columns;
}

constexpr std::int64_t whole_tile_scales = 4;  ///< a row of tiles' scales is whole 16 bytes
inline std::int64_t rounded_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }
inline std::int64_t padded_to_blocks(std::int64_t rows) { return rounded_up(rows, quantised_block); }

/// … x [m, k] by block? Rows, padded to whole blocks, are in parts of 32 and 128 a dimension of the grid.
inline bool block_kernels_take(const at::Tensor& x) {
  constexpr std::int64_t most_rows = std::int64_t{65535} * 32;
  return is_packed_type(x) && padded_to_blocks(x.size(0)) <= most_rows;
}

/// Contiguous, and at whole 16 bytes, as kernels read it.
inline at::Tensor packed(const at::Tensor& x) {
  constexpr std::uintptr_t pack = 16;
  const at::Tensor in = x.contiguous();
  return reinterpret_cast<std::uintptr_t>(in.const_data_ptr()) % pack == 0 ? in : in.clone();
}
inline std::int64_t* counts_of(const Maybe& counts) { return counts ? counts->data_ptr<std::int64_t>() : nullptr; }

/// Memory for magnitudes or scales of x.
inline at::Tensor empty_scales(const at::Tensor& x, bool by_row, bool transposed) {
  auto shape = x.sizes().vec();
  if (transposed) std::swap(shape[shape.size() - 2], shape.back());
  shape.back() = 1;
  if (!by_row) shape = {1, 1};
  return at::empty(shape, x.options().dtype(at::kFloat));
}

/// … for x's values and scales, or its transpose's.
inline Pair empty_quantised(const at::Tensor& x, at::ScalarType format, bool by_row, bool transposed) {
  auto shape = x.sizes().vec();
  if (transposed) {
    std::swap(shape[shape.size() - 2], shape.back());
    shape.back() = rounded_up(shape.back(), quantised_multiple);
  }
  return {at::empty(shape, x.options().dtype(format)), empty_scales(x, by_row, transposed)};
}

/// … for a matrix [rows, columns] in blocks or tiles, on x's device.
inline Pair empty_blocks(const at::Tensor& x, std::int64_t rows, std::int64_t columns) {
  return {at::empty({rows, columns}, x.options().dtype(at::kFloat8_e4m3fn)),
          at::empty({columns / quantised_block, rows}, x.options().dtype(at::kFloat)).t()};
}
inline Pair empty_tiles(const at::Tensor& x, std::int64_t rows, std::int64_t columns) {
  const auto down = rows / quantised_block, across = columns / quantised_block;
  const auto scales = x.options().dtype(at::kFloat);
  const auto whole = rounded_up(across, whole_tile_scales);
  return {at::empty({rows, columns}, x.options().dtype(at::kFloat8_e4m3fn)),
          whole == across ? at::empty({down, across}, scales) : at::ones({down, whole}, scales)};
}

}  // namespace fp8
