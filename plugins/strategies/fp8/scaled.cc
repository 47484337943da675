#include "scaled.h"

#include <ATen/ATen.h>
#include <ATen/BlasBackend.h>

#include <cstdint>

namespace fp8 {
namespace {

at::ScalarType wide(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

at::Tensor unscaled(const Quantised& x, at::ScalarType dtype) { return x.values.to(dtype).mul(x.scales.to(dtype)); }

// On a GPU, or in a dry run, which counts what one would do.
bool is_gpus(const at::Tensor& x) { return x.is_cuda() || x.is_meta(); }

// Tiles have fewer rows of scales than of values.
bool in_tiles(const Quantised& x) { return x.scales.size(0) < x.values.size(0); }

}  // namespace

at::Tensor product(const Quantised& a, const Quantised& b, at::ScalarType dtype, bool fast) {
  if (is_gpus(a.values)) return at::_scaled_mm(a.values, b.values.t(), a.scales, b.scales.t(), {}, {}, dtype, fast);
  return at::mm(unscaled(a, wide(dtype)), unscaled(b, wide(dtype)).t()).to(dtype);
}

at::Tensor block_product(const Quantised& a, const Quantised& b, at::ScalarType dtype) {
  const bool tiles = in_tiles(b);
  if (is_gpus(a.values)) {
    constexpr auto blocks = static_cast<std::int64_t>(at::blas::ScalingType::BlockWise1x128);
    const auto of_b = tiles ? static_cast<std::int64_t>(at::blas::ScalingType::BlockWise128x128) : blocks;
    const at::Tensor scales = tiles ? b.scales.t() : b.scales;
    return at::_scaled_mm_v2(a.values, b.values.t(), a.scales, blocks, {}, scales, of_b, {}, {}, dtype);
  }
  const auto type = wide(dtype);
  return at::mm(numbers_of_blocks(a, type), (tiles ? numbers_of_tiles(b, type) : numbers_of_blocks(b, type)).t())
      .to(dtype);
}

at::Tensor grouped_product(const Quantised& a, const Quantised& b, const at::Tensor& ends, at::ScalarType dtype,
                           bool fast) {
  if (is_gpus(a.values) && a.values.size(0) > 0) {
    return at::_scaled_grouped_mm(a.values, b.values.transpose(1, 2), a.scales.squeeze(1), b.scales.squeeze(2), ends,
                                  {}, {}, dtype, fast);
  }
  at::Tensor out = at::empty({a.values.size(0), b.values.size(1)}, a.values.options().dtype(dtype));
  if (a.values.size(0) == 0) return out;
  const at::Tensor host = ends.cpu();
  std::int64_t begin = 0;
  for (std::int64_t group = 0; group < host.numel(); ++group) {
    const std::int64_t end = host.const_data_ptr<std::int32_t>()[group];
    if (end > begin) {
      const Quantised rows{a.values.slice(0, begin, end), a.scales.slice(0, begin, end)};
      out.slice(0, begin, end).copy_(product(rows, {b.values[group], b.scales[group]}, dtype, fast));
    }
    begin = end;
  }
  return out;
}

}  // namespace fp8
