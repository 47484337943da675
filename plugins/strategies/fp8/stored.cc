#include "stored.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include <algorithm>
#include <vector>

#include "operators.h"

namespace fp8 {

using namespace capstan;

namespace {

constexpr auto eight = at::kFloat8_e4m3fn;
constexpr auto tile = quantised_block;
constexpr std::int64_t at_once = std::int64_t{1} << 24;  // numbers that are in memory in float32 together

at::Tensor numbers_of(const Quantised& x) { return x.values.to(at::kFloat).mul_(x.scales); }

at::Tensor column_magnitudes(const Quantised& rows) {
  const auto all = rows.values.size(-2);
  const auto step = std::max<std::int64_t>(1, at_once / std::max<std::int64_t>(1, rows.values.numel() / all));
  Rounding columns;
  columns.transposed = true;
  at::Tensor largest;
  for (std::int64_t begin = 0; begin < all; begin += step) {
    const auto count = std::min(step, all - begin);
    const Quantised some{rows.values.narrow(-2, begin, count), rows.scales.narrow(-2, begin, count)};
    const auto of_some = magnitudes(numbers_of(some), columns);
    largest = largest.defined() ? at::maximum(largest, of_some) : of_some;
  }
  return largest;
}

}  // namespace

at::Tensor transposed(const Quantised& rows, const at::Tensor& columns) {
  if (rows.values.is_cuda() || rows.values.is_meta()) {
    static const auto op = operation<TransposedOp>("capstan::fp8_transposed");
    return op.call(rows.values, rows.scales, columns);
  }
  return numbers_of(rows).transpose(-1, -2).mul(columns.reciprocal()).to(eight).contiguous();
}

at::Tensor unknown_scales(const at::Tensor& values) {
  return at::empty({1}, values.options().dtype(at::kFloat)).expand(values.sizes()).narrow(-1, 0, 1);
}

Quantised Stored::rows(const at::Tensor& bytes) const {
  const auto values = bytes.view(eight);
  if (bytes.is_meta()) return {values, unknown_scales(values)};
  auto shape = bytes.sizes().vec();
  shape.back() = 1;
  return {values, kept_->rows.view(shape)};
}

Quantised Stored::columns(const at::Tensor& bytes) const {
  const auto given = rows(bytes);
  if (bytes.is_meta()) {
    const auto values = transposed(given, given.scales);
    return {values, unknown_scales(values)};
  }
  if (!kept_->columns.defined()) {
    const auto largest = column_magnitudes(given);
    if (kept_->agree_on_columns) kept_->agree_on_columns(largest);
    kept_->columns = scales_for(largest, eight);
  }
  return {transposed(given, kept_->columns), kept_->columns};
}

std::int64_t Stored::bytes(const Extent& extent) const {
  constexpr std::int64_t scale = sizeof(float), whole = 16;
  return (extent.numel() + scale * extent.matrices + whole - 1) / whole * whole;
}

// For whole rows, as all ranks' together are.
void Stored::encode(const Extent& extent, const at::Tensor& values, const at::Tensor& bytes, const Sum&) const {
  const auto made = quantise(values, {});
  bytes.zero_();
  bytes.narrow(0, 0, extent.numel()).copy_(made.values.view(at::kByte).view({-1}));
  const auto scales = made.scales.view({-1}).view(at::kByte);
  bytes.narrow(0, extent.numel(), scales.numel()).copy_(scales);
}

void Stored::decode(const Extent& extent, const at::Tensor& bytes, const at::Tensor& values) const {
  const auto of_rows = bytes.narrow(0, 0, extent.numel()).view(eight).view({extent.matrices, extent.elements});
  const auto size = extent.matrices * static_cast<std::int64_t>(sizeof(float));
  const auto scales = bytes.narrow(0, extent.numel(), size).clone().view(at::kFloat).view({-1, 1});
  values.copy_(numbers_of({of_rows, scales}));
}

at::Tensor Stored::encode_rows(const at::Tensor& values, const at::Tensor& bytes) const {
  const Rounding how;
  const auto largest = magnitudes(values, how);
  if (kept_->agree_on_rows) kept_->agree_on_rows(largest);
  const auto made = quantise(values, how, largest);
  bytes.copy_(made.values.view(at::kByte));
  return made.scales.view({-1});
}

void Stored::keep_scales(const at::Tensor& scales) {
  kept_->rows = scales;
  kept_->columns = at::Tensor();
}

void StoredTiles::find_scales(const at::Tensor& bytes) const {
  if (kept_->rows.defined()) return;
  const auto all = kept_->given.view({-1, tile}).view(at::kBFloat16).narrow(1, 0, bytes.size(1) / tile).to(at::kFloat);
  kept_->rows = tile_scales(all);
  kept_->columns = tile_scales(all.t());
  kept_->ones = at::ones({std::max(bytes.size(0), bytes.size(1)), 1}, all.options());
}

Quantised StoredTiles::rows(const at::Tensor& bytes) const {
  const auto values = bytes.view(eight);
  if (bytes.is_meta()) return {values, unknown_scales(values)};
  find_scales(bytes);
  return {values, kept_->rows};
}

Quantised StoredTiles::columns(const at::Tensor& bytes) const {
  const auto values = bytes.view(eight);
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
  const auto numbers = bytes.narrow(0, 0, extent.numel()).view(eight).view({-1, columns_});
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

void StoredTiles::keep_scales(const at::Tensor& scales) { *kept_ = {scales, {}, {}, {}}; }

}  // namespace fp8
