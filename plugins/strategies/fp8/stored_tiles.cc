#include "stored_tiles.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include <algorithm>

namespace fp8 {

using namespace capstan;

namespace {

constexpr auto tile = quantised_block;
constexpr auto of_tiles = at::kFloat8_e4m3fn;

}  // namespace

void StoredTiles::find_scales(const at::Tensor& bytes) const {
  if (kept_->rows.defined()) return;
  const auto all = kept_->given.view({-1, tile}).view(at::kBFloat16).narrow(1, 0, bytes.size(1) / tile).to(at::kFloat);
  kept_->rows = tile_scales(all);
  kept_->columns = tile_scales(all.t());
  kept_->ones = at::ones({std::max(bytes.size(0), bytes.size(1)), 1}, all.options());
}

Quantised StoredTiles::rows(const at::Tensor& bytes) const {
  const auto values = bytes.view(of_tiles);
  if (bytes.is_meta()) return {values, unknown_scales(values)};
  find_scales(bytes);
  return {values, kept_->rows};
}

Quantised StoredTiles::columns(const at::Tensor& bytes) const {
  const auto values = bytes.view(of_tiles);
  if (bytes.is_meta()) {
    const auto scales = unknown_scales(values);
    const auto turned = transposed({values, scales}, scales);
    return {turned, unknown_scales(turned)};
  }
  find_scales(bytes);
  const Quantised unscaled{values, kept_->ones.narrow(0, 0, bytes.size(0))};
  return {transposed(unscaled, kept_->ones.narrow(0, 0, bytes.size(1))), kept_->columns};
}

std::int64_t StoredTiles::bytes(const Extent& extent) const {
  constexpr std::int64_t scale = sizeof(float), whole = 16;
  return (extent.numel() + scale * (extent.numel() / tile / tile) + whole - 1) / whole * whole;
}

void StoredTiles::encode(const Extent& extent, const at::Tensor& values, const at::Tensor& bytes, const Sum&) const {
  const auto made = quantise_tiles(values.view({-1, columns_}), false);
  const auto scales = made.scales.narrow(1, 0, columns_ / tile).contiguous().view(at::kByte).view({-1});
  bytes.zero_();
  bytes.narrow(0, 0, extent.numel()).copy_(made.values.view(at::kByte).view({-1}));
  bytes.narrow(0, extent.numel(), scales.numel()).copy_(scales);
}

void StoredTiles::decode(const Extent& extent, const at::Tensor& bytes, const at::Tensor& values) const {
  const auto numbers = bytes.narrow(0, 0, extent.numel()).view(of_tiles).view({-1, columns_});
  const auto size = extent.numel() / tile / tile * static_cast<std::int64_t>(sizeof(float));
  const auto scales = bytes.narrow(0, extent.numel(), size).clone().view(at::kFloat).view({-1, columns_ / tile});
  values.copy_(numbers_of_tiles({numbers, scales}, at::kFloat).view(values.sizes()));
}

at::Tensor StoredTiles::encode_rows(const at::Tensor& values, const at::Tensor& bytes) const {
  CAPSTAN_ASSERT(values.size(0) % tile == 0 && values.size(1) <= most_columns);
  const auto made = quantise_tiles(values, false);
  bytes.copy_(made.values.view(at::kByte));
  const auto across = values.size(1) / tile;
  const auto scales = at::ones({values.size(0) / tile, 2 * tile}, values.options().dtype(at::kBFloat16));
  scales.narrow(1, 0, across).copy_(made.scales.narrow(1, 0, across));
  return scales.view(at::kFloat).view({-1});
}

void StoredTiles::keep(const at::Tensor& scales) const { *kept_ = {scales, {}, {}, {}}; }

}  // namespace fp8
