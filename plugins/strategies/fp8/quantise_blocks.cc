#include "quantise_blocks.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include <limits>

#include "operators.h"

namespace fp8 {
namespace {

constexpr auto block_format = at::kFloat8_e4m3fn;
constexpr double block_top = 448;

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
Pair rounded_blocks(const at::Tensor& blocks, at::IntArrayRef over) {
  constexpr double largest = std::numeric_limits<double>::infinity();
  const auto magnitudes = at::linalg_vector_norm(blocks, largest, over, /*keepdim=*/true).to(at::kFloat);
  const auto scales = scales_for(magnitudes, block_format);
  const auto scaled = blocks.mul(scales.reciprocal().to(blocks.scalar_type())).clamp_(-block_top, block_top);
  return {scaled.to(block_format), scales};
}

Pair rows_in_blocks(const at::Tensor& x) {
  const auto of_row = x.size(1) / quantised_block;
  const auto [values, scales] = rounded_blocks(x.reshape({x.size(0), of_row, quantised_block}), {2});
  return {values.reshape(x.sizes()).contiguous(), column_major(scales.reshape({x.size(0), of_row}))};
}

void count_blocks(const at::Tensor& counts, const at::Tensor& x, const Pair& made) {
  const auto rows = x.size(0);
  const auto some_rows = [&](const at::Tensor& all) { return all.slice(0, 0, rows, quantised_block); };
  const auto some = some_rows(x).ne(0);
  const auto zeroed = some_rows(std::get<0>(made)).to(at::kFloat).eq(0).logical_and(some);
  const auto bad = std::get<1>(made).narrow(0, 0, rows).isnan();
  counts.add_(at::stack({zeroed.sum(), some.sum(), bad.sum(), at::full({}, bad.numel(), counts.options())}));
}

Pair plain_quantise_blocks(const at::Tensor& x, const at::Tensor& counts) {
  auto made = rows_in_blocks(with_whole_blocks(x));
  if (counts.defined()) count_blocks(counts, x, made);
  return made;
}

Quantised plain_quantise_tiles(const at::Tensor& w, bool transposed) {
  const auto down = w.size(0) / quantised_block, across = w.size(1) / quantised_block;
  auto [values, scales] = rounded_blocks(w.reshape({down, quantised_block, across, quantised_block}), {1, 3});
  values = values.reshape(w.sizes());
  scales = scales.view({down, across});
  if (!transposed) return {values.contiguous(), tile_scales(scales)};
  return {values.t().contiguous(), tile_scales(scales.t())};
}

}  // namespace

at::Tensor tile_scales(const at::Tensor& scales) {
  return at::constant_pad_nd(scales, {0, rounded_up(scales.size(1), whole_tile_scales) - scales.size(1)}, 1)
      .contiguous();
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
  if (is_plain(x, block_kernels_take(x))) return quantised_of(plain_quantise_blocks(x, counts));
  static const auto op = operation<BlocksOp>("capstan::quantise_blocks");
  return quantised_of(op.call(x, maybe(counts)));
}

std::pair<Quantised, Quantised> quantise_blocks_both(const at::Tensor& x, const at::Tensor& counts) {
  CAPSTAN_ASSERT(x.dim() == 2 && x.size(1) % quantised_block == 0);
  if (is_plain(x, block_kernels_take(x)))
    return {quantise_blocks(x, counts), quantised_of(rows_in_blocks(with_whole_blocks(x).t()))};
  static const auto op = operation<BlocksBothOp>("capstan::quantise_blocks_both");
  auto [values, scales, transposed, transposed_scales] = op.call(x, maybe(counts));
  return {{values, scales}, {transposed, transposed_scales}};
}

Quantised quantise_tiles(const at::Tensor& w, bool transposed) {
  CAPSTAN_ASSERT(w.dim() == 2 && w.size(0) % quantised_block == 0 && w.size(1) % quantised_block == 0);
  if (is_plain(w, block_kernels_take(w))) return plain_quantise_tiles(w, transposed);
  static const auto op = operation<TilesOp>("capstan::quantise_tiles");
  return quantised_of(op.call(w, transposed));
}

Quantised quantise_swiglu_blocks(const at::Tensor& x, const at::Tensor& counts) {
  CAPSTAN_ASSERT(x.dim() == 2 && x.size(1) % (2 * quantised_block) == 0);
  if (is_plain(x, x.scalar_type() == at::kBFloat16 && block_kernels_take(x)))
    return quantise_blocks(swiglu_of(x), counts);
  static const auto op = operation<BlocksOp>("capstan::quantise_swiglu_blocks");
  return quantised_of(op.call(x, maybe(counts)));
}

Quantised quantise_swiglu_blocks_backward(const at::Tensor& gradient, const at::Tensor& x, const at::Tensor& counts) {
  CAPSTAN_ASSERT(x.dim() == 2 && x.size(1) % (2 * quantised_block) == 0 && 2 * gradient.size(1) == x.size(1));
  const bool narrow = x.scalar_type() == at::kBFloat16 && gradient.scalar_type() == at::kBFloat16;
  if (is_plain(x, narrow && block_kernels_take(x))) return quantise_blocks(swiglu_gradient(gradient, x), counts);
  static const auto op = operation<SwigluBlocksBackwardOp>("capstan::quantise_swiglu_blocks_backward");
  return quantised_of(op.call(gradient, x, maybe(counts)));
}

}  // namespace fp8
