#include "scaled.h"

#include <ATen/ATen.h>
#include <capstan/ops/grouped.h>

#include <cstdint>
#include <limits>

namespace fp8 {
namespace {

// Both formats end at 0.875 · 2^n: 448 and 57344.
constexpr double top_mantissa = 0.875;
int top_exponent(at::ScalarType format) { return format == at::kFloat8_e4m3fn ? 9 : 16; }
double top(at::ScalarType format) { return format == at::kFloat8_e4m3fn ? 448 : 57344; }

at::ScalarType wide(at::ScalarType dtype) { return dtype == at::kDouble ? at::kDouble : at::kFloat; }

at::Tensor unscaled(const Scaled& x, at::ScalarType dtype) { return x.values.to(dtype).mul(x.scales.to(dtype)); }

// For a prediction of time, which knows the products that ATen makes: one of 16 bits, on the slow side, counts as such.
at::Tensor without_memory(const at::Tensor& x, at::ScalarType dtype) {
  return at::empty({1}, x.options().dtype(dtype)).expand(x.sizes());
}

}  // namespace

at::Tensor magnitudes(const at::Tensor& x, bool by_row) {
  constexpr double largest = std::numeric_limits<double>::infinity();
  if (by_row) return at::linalg_vector_norm(x, largest, at::IntArrayRef{-1}, /*keepdim=*/true).to(at::kFloat);
  return at::linalg_vector_norm(x, largest).to(at::kFloat).view({1, 1});
}

at::Tensor scales_for(const at::Tensor& magnitudes, at::ScalarType format) {
  if (magnitudes.is_meta()) return magnitudes;
  const auto [mantissa, exponent] = at::frexp(magnitudes);
  const auto power = exponent.to(at::kInt) + mantissa.gt(top_mantissa) - top_exponent(format);
  const auto scales = power.clamp(-126, 127).add(127).bitwise_left_shift(23).view(at::kFloat);
  return scales.masked_fill(magnitudes.isfinite().logical_not(), std::numeric_limits<float>::quiet_NaN());
}

Scaled quantise(const at::Tensor& x, const at::Tensor& scales, at::ScalarType format) {
  const auto scaled = x.mul(scales.reciprocal().to(x.scalar_type())).clamp_(-top(format), top(format));
  return {scaled.to(format).contiguous(), scales};
}

at::Tensor product(const Scaled& a, const Scaled& b, at::ScalarType dtype, bool fast) {
  if (a.values.is_meta()) return at::mm(without_memory(a.values, dtype), without_memory(b.values, dtype).t());
  if (a.values.is_cuda()) return at::_scaled_mm(a.values, b.values.t(), a.scales, b.scales.t(), {}, {}, dtype, fast);
  return at::mm(unscaled(a, wide(dtype)), unscaled(b, wide(dtype)).t()).to(dtype);
}

at::Tensor grouped_product(const Scaled& a, const Scaled& b, const at::Tensor& ends, at::ScalarType dtype, bool fast) {
  if (a.values.is_meta())
    return capstan::ops::grouped_linear(without_memory(a.values, dtype), without_memory(b.values, dtype), ends);
  at::Tensor out = at::empty({a.values.size(0), b.values.size(1)}, a.values.options().dtype(dtype));
  if (a.values.size(0) == 0) return out;
  if (a.values.is_cuda()) {
    return at::_scaled_grouped_mm(a.values, b.values.transpose(1, 2), a.scales.squeeze(1), b.scales.squeeze(2), ends,
                                  {}, {}, dtype, fast);
  }
  const at::Tensor host = ends.cpu();
  std::int64_t begin = 0;
  for (std::int64_t group = 0; group < host.numel(); ++group) {
    const std::int64_t end = host.const_data_ptr<std::int32_t>()[group];
    if (end > begin) {
      const Scaled rows{a.values.slice(0, begin, end), a.scales.slice(0, begin, end)};
      out.slice(0, begin, end).copy_(product(rows, {b.values[group], b.scales[group]}, dtype, fast));
    }
    begin = end;
  }
  return out;
}

}  // namespace fp8
