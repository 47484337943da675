#include "sent.h"

#include <ATen/ATen.h>

#include <cstdint>
#include <utility>

#include "stored.h"

namespace fp8 {

using namespace capstan;

namespace {

// The kernel reads rows of this length best; how they lie in the weight does not matter to one scale.
constexpr std::int64_t widest = 4096;

std::int64_t row_length(std::int64_t numel) {
  std::int64_t length = quantised_multiple;
  while (length < widest && numel % (2 * length) == 0) length *= 2;
  return length;
}

}  // namespace

at::Tensor Sent::scales_of(const at::Tensor& largest) const { return scales_for(largest, at::kFloat8_e4m3fn); }

void Sent::encode_to_gather(const at::Tensor& values, const at::Tensor& largest, const at::Tensor& bytes) const {
  const auto rows = values.view({-1, row_length(values.numel())});
  const auto made = quantise(rows, {at::kFloat8_e4m3fn, /*by_row=*/false}, largest.view({1, 1}));
  bytes.copy_(made.values.view(at::kByte).view({-1}));
}

void Sent::bind_gathered(at::Tensor bytes, at::Tensor scale) {
  bytes_ = bytes.flatten(0, -2);
  scale_ = std::move(scale);
  row_ones_ = at::ones({bytes_.size(0)}, scale_.options());
  column_ones_ = at::ones({bytes_.size(1)}, scale_.options());
}

Quantised Sent::rows() const { return {bytes_.view(at::kFloat8_e4m3fn), scale_.view({1, 1})}; }

Quantised Sent::columns() const {
  const auto own = rows();
  if (bytes_.is_cpu()) return {bytes_.t().contiguous().view(at::kFloat8_e4m3fn), own.scales};
  return {transposed({own.values, row_ones_}, column_ones_), own.scales};
}

}  // namespace fp8
