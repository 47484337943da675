#include "ops/quantise_blocks.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <torch/library.h>

#include <cstdint>
#include <limits>
#include <tuple>

#include "ops/operators.h"

namespace capstan::ops {
namespace {

using MaybeCounts = std::optional<at::Tensor>;

constexpr auto block_format = at::kFloat8_e4m3fn;
constexpr double block_top = 448;
constexpr std::int64_t whole_scales = 4;  // a row of tiles' scales is whole 16 bytes

std::int64_t rounded_up(std::int64_t n, std::int64_t to) { return (n + to - 1) / to * to; }

at::Tensor with_whole_blocks(const at::Tensor& x) {
  const auto rest = padded_to_blocks(x.size(0)) - x.size(0);
  return rest == 0 ? x : at::constant_pad_nd(x, {0, 0, 0, rest});
}

// Columns one after the other in memory, as products take the scales of blocks. contiguous() leaves a single one's
// stride as it is.
at::Tensor column_major(const at::Tensor& scales) {
  return at::empty({scales.size(1), scales.size(0)}, scales.options()).copy_(scales.t()).t();
}

// x [M, k] in blocks [M, k / 128, 128]: a scale for each of `over` these dimensions.
BlockPair rounded_blocks(const at::Tensor& blocks, at::IntArrayRef over) {
  constexpr double largest = std::numeric_limits<double>::infinity();
  const auto magnitudes = at::linalg_vector_norm(blocks, largest, over, /*keepdim=*/true).to(at::kFloat);
  const auto scales = scales_for(magnitudes, block_format);
  const auto scaled = blocks.mul(scales.reciprocal().to(blocks.scalar_type())).clamp_(-block_top, block_top);
  return {scaled.to(block_format), scales};
}

BlockPair rows_in_blocks(const at::Tensor& x) {
  const auto of_row = x.size(1) / quantised_block;
  const auto [values, scales] = rounded_blocks(x.reshape({x.size(0), of_row, quantised_block}), {2});
  return {values.reshape(x.sizes()).contiguous(), column_major(scales.reshape({x.size(0), of_row}))};
}

void count_blocks(const at::Tensor& counts, const at::Tensor& x, const BlockPair& made) {
  const auto rows = x.size(0);
  const auto some_rows = [&](const at::Tensor& all) { return all.slice(0, 0, rows, quantised_block); };
  const auto some = some_rows(x).ne(0);
  const auto zeroed = some_rows(std::get<0>(made)).to(at::kFloat).eq(0).logical_and(some);
  const auto bad = std::get<1>(made).narrow(0, 0, rows).isnan();
  counts.add_(at::stack({zeroed.sum(), some.sum(), bad.sum(), at::full({}, bad.numel(), counts.options())}));
}

MaybeCounts if_defined(const at::Tensor& counts) { return counts.defined() ? MaybeCounts(counts) : std::nullopt; }

Quantised quantised_of(BlockPair made) { return {std::move(std::get<0>(made)), std::move(std::get<1>(made))}; }

template <class Signature>
auto block_operation(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
}

BlockPair quantise_blocks_meta(const at::Tensor& x, const MaybeCounts& /*counts*/) {
  return empty_blocks(x, padded_to_blocks(x.size(0)), x.size(1));
}

BlockPairs quantise_blocks_both_meta(const at::Tensor& x, const MaybeCounts& counts) {
  return std::tuple_cat(quantise_blocks_meta(x, counts), empty_blocks(x, x.size(1), padded_to_blocks(x.size(0))));
}

BlockPair quantise_tiles_meta(const at::Tensor& w, bool transposed) {
  return transposed ? empty_tiles(w, w.size(1), w.size(0)) : empty_tiles(w, w.size(0), w.size(1));
}

BlockPair quantise_swiglu_blocks_meta(const at::Tensor& x, const MaybeCounts& counts) {
  return quantise_blocks_meta(x.narrow(1, 0, x.size(1) / 2), counts);
}

BlockPair quantise_swiglu_blocks_backward_meta(const at::Tensor&, const at::Tensor& x, const MaybeCounts& counts) {
  return quantise_blocks_meta(x, counts);
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def("quantise_blocks(Tensor x, Tensor(a!)? counts) -> (Tensor, Tensor)");
  m.def("quantise_blocks_both(Tensor x, Tensor(a!)? counts) -> (Tensor, Tensor, Tensor, Tensor)");
  m.def("quantise_tiles(Tensor w, bool transposed) -> (Tensor, Tensor)");
  m.def("quantise_swiglu_blocks(Tensor x, Tensor(a!)? counts) -> (Tensor, Tensor)");
  m.def("quantise_swiglu_blocks_backward(Tensor gradient, Tensor x, Tensor(a!)? counts) -> (Tensor, Tensor)");
}

TORCH_LIBRARY_IMPL(capstan, CPU, m) {
  m.impl("quantise_blocks", &plain_quantise_blocks);
  m.impl("quantise_blocks_both", &plain_quantise_blocks_both);
  m.impl("quantise_tiles", &plain_quantise_tiles);
  m.impl("quantise_swiglu_blocks", &plain_quantise_swiglu_blocks);
  m.impl("quantise_swiglu_blocks_backward", &plain_quantise_swiglu_blocks_backward);
}

TORCH_LIBRARY_IMPL(capstan, Meta, m) {
  m.impl("quantise_blocks", &quantise_blocks_meta);
  m.impl("quantise_blocks_both", &quantise_blocks_both_meta);
  m.impl("quantise_tiles", &quantise_tiles_meta);
  m.impl("quantise_swiglu_blocks", &quantise_swiglu_blocks_meta);
  m.impl("quantise_swiglu_blocks_backward", &quantise_swiglu_blocks_backward_meta);
}

std::int64_t padded_to_blocks(std::int64_t rows) { return rounded_up(rows, quantised_block); }

BlockPair empty_blocks(const at::Tensor& x, std::int64_t rows, std::int64_t columns) {
  return {at::empty({rows, columns}, x.options().dtype(block_format)),
          at::empty({columns / quantised_block, rows}, x.options().dtype(at::kFloat)).t()};
}

BlockPair empty_tiles(const at::Tensor& x, std::int64_t rows, std::int64_t columns) {
  const auto down = rows / quantised_block, across = columns / quantised_block;
  const auto scales = x.options().dtype(at::kFloat);
  const bool whole = across % whole_scales == 0;
  return {at::empty({rows, columns}, x.options().dtype(block_format)),
          whole ? at::empty({down, across}, scales) : at::ones({down, rounded_up(across, whole_scales)}, scales)};
}

at::Tensor tile_scales(const at::Tensor& scales) {
  return at::constant_pad_nd(scales, {0, rounded_up(scales.size(1), whole_scales) - scales.size(1)}, 1).contiguous();
}

BlockPair plain_quantise_blocks(const at::Tensor& x, const MaybeCounts& counts) {
  auto made = rows_in_blocks(with_whole_blocks(x));
  if (counts) count_blocks(*counts, x, made);
  return made;
}

BlockPairs plain_quantise_blocks_both(const at::Tensor& x, const MaybeCounts& counts) {
  return std::tuple_cat(plain_quantise_blocks(x, counts), rows_in_blocks(with_whole_blocks(x).t()));
}

BlockPair plain_quantise_tiles(const at::Tensor& w, bool transposed) {
  const auto down = w.size(0) / quantised_block, across = w.size(1) / quantised_block;
  auto [values, scales] = rounded_blocks(w.reshape({down, quantised_block, across, quantised_block}), {1, 3});
  values = values.reshape(w.sizes());
  scales = scales.view({down, across});
  if (!transposed) return {values.contiguous(), tile_scales(scales)};
  return {values.t().contiguous(), tile_scales(scales.t())};
}

BlockPair plain_quantise_swiglu_blocks(const at::Tensor& x, const MaybeCounts& counts) {
  static const auto op = block_operation<Swiglu>("capstan::swiglu");
  return plain_quantise_blocks(op.call(x), counts);
}

BlockPair plain_quantise_swiglu_blocks_backward(const at::Tensor& gradient, const at::Tensor& x,
                                                const MaybeCounts& counts) {
  static const auto op = block_operation<SwigluBackward>("capstan::swiglu_backward");
  return plain_quantise_blocks(op.call(gradient, x), counts);
}

at::Tensor numbers_of_blocks(const Quantised& x, at::ScalarType dtype) {
  const auto blocks = x.values.view({x.values.size(0), x.values.size(1) / quantised_block, quantised_block});
  return blocks.to(dtype).mul_(x.scales.unsqueeze(2)).view(x.values.sizes());
}

at::Tensor numbers_of_tiles(const Quantised& x, at::ScalarType dtype) {
  const auto down = x.values.size(0) / quantised_block, across = x.values.size(1) / quantised_block;
  const auto tiles = x.values.view({down, quantised_block, across, quantised_block});
  return tiles.to(dtype).mul_(x.scales.narrow(1, 0, across).view({down, 1, across, 1})).view(x.values.sizes());
}

Quantised quantise_blocks(const at::Tensor& x, const at::Tensor& counts) {
  CAPSTAN_ASSERT(x.dim() == 2 && x.size(1) % quantised_block == 0);
  static const auto op = block_operation<BlockPair(const at::Tensor&, const MaybeCounts&)>("capstan::quantise_blocks");
  return quantised_of(op.call(x, if_defined(counts)));
}

std::pair<Quantised, Quantised> quantise_blocks_both(const at::Tensor& x, const at::Tensor& counts) {
  CAPSTAN_ASSERT(x.dim() == 2 && x.size(1) % quantised_block == 0);
  static const auto op =
      block_operation<BlockPairs(const at::Tensor&, const MaybeCounts&)>("capstan::quantise_blocks_both");
  auto [values, scales, transposed, transposed_scales] = op.call(x, if_defined(counts));
  return {{values, scales}, {transposed, transposed_scales}};
}

Quantised quantise_tiles(const at::Tensor& w, bool transposed) {
  CAPSTAN_ASSERT(w.dim() == 2 && w.size(0) % quantised_block == 0 && w.size(1) % quantised_block == 0);
  static const auto op = block_operation<BlockPair(const at::Tensor&, bool)>("capstan::quantise_tiles");
  return quantised_of(op.call(w, transposed));
}

Quantised quantise_swiglu_blocks(const at::Tensor& x, const at::Tensor& counts) {
  CAPSTAN_ASSERT(x.dim() == 2 && x.size(1) % (2 * quantised_block) == 0);
  static const auto op =
      block_operation<BlockPair(const at::Tensor&, const MaybeCounts&)>("capstan::quantise_swiglu_blocks");
  return quantised_of(op.call(x, if_defined(counts)));
}

Quantised quantise_swiglu_blocks_backward(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& counts) {
  CAPSTAN_ASSERT(x.dim() == 2 && x.size(1) % (2 * quantised_block) == 0 && 2 * gradient.size(1) == x.size(1));
  static const auto op = block_operation<BlockPair(const at::Tensor&, const at::Tensor&, const MaybeCounts&)>(
      "capstan::quantise_swiglu_blocks_backward");
  return quantised_of(op.call(gradient, x, if_defined(counts)));
}

}  // namespace capstan::ops
