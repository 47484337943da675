#include "quantise.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include <limits>

#include "operators.h"

namespace fp8 {
namespace {

// Both formats end at 0.875 · 2^n: 448 and 57344.
constexpr double top_mantissa = 0.875;
int top_exponent(at::ScalarType format) { return format == at::kFloat8_e4m3fn ? 9 : 16; }
double top(at::ScalarType format) { return format == at::kFloat8_e4m3fn ? 448 : 57344; }

at::Tensor padded_transpose(const at::Tensor& x) {
  const auto rest = rounded_up(x.size(-2), quantised_multiple) - x.size(-2);
  return (rest == 0 ? x : at::constant_pad_nd(x, {0, 0, 0, rest})).transpose(-1, -2);
}

void add_counts(const at::Tensor& counts, const at::Tensor& x, const at::Tensor& values) {
  constexpr std::int64_t counted_rows = 16;
  const auto rows = [](const at::Tensor& all) { return all.flatten(0, -2).slice(0, 0, c10::nullopt, counted_rows); };
  const auto some = rows(x).ne(0), zeroed = rows(values).to(at::kFloat).eq(0).logical_and(some);
  const auto bad = values.flatten(0, -2).narrow(1, 0, 1).to(at::kFloat).isnan();
  const auto all = at::full({}, bad.numel(), counts.options());
  counts.add_(at::stack({zeroed.sum(), some.sum(), bad.sum(), all}));
}

at::Tensor plain_magnitudes(const at::Tensor& x, bool by_row, bool transposed) {
  constexpr double largest = std::numeric_limits<double>::infinity();
  const std::int64_t dim = transposed ? -2 : -1;
  if (!by_row) {
    if (x.numel() == 0) return at::zeros({1, 1}, x.options().dtype(at::kFloat));
    return at::linalg_vector_norm(x, largest).to(at::kFloat).view({1, 1});
  }
  if (x.size(dim) == 0) return empty_scales(x, by_row, transposed).zero_();
  const auto of_rows = at::linalg_vector_norm(x, largest, at::IntArrayRef{dim}, /*keepdim=*/true).to(at::kFloat);
  return transposed ? of_rows.transpose(-1, -2).contiguous() : of_rows;
}

Quantised plain_quantise(const at::Tensor& x, const at::Tensor& magnitudes, const Rounding& how) {
  const auto scales = scales_for(magnitudes, how.format);
  const auto rows = how.transposed ? padded_transpose(x) : x;
  const auto scaled = rows.mul(scales.reciprocal().to(x.scalar_type())).clamp_(-top(how.format), top(how.format));
  const at::Tensor values = scaled.to(how.format).contiguous();
  if (how.counts.defined() && !how.transposed) add_counts(how.counts, x, values);
  return {values, scales};
}

}  // namespace

at::Tensor scales_for(const at::Tensor& magnitudes, at::ScalarType format) {
  const auto [mantissa, exponent] = at::frexp(magnitudes);
  const auto power = exponent.to(at::kInt) + mantissa.gt(top_mantissa) - top_exponent(format);
  const auto scales = power.clamp(-126, 127).add(127).bitwise_left_shift(23).view(at::kFloat);
  return scales.masked_fill(magnitudes.isfinite().logical_not(), std::numeric_limits<float>::quiet_NaN());
}

at::Tensor magnitudes(const at::Tensor& x, const Rounding& how) {
  CAPSTAN_ASSERT(x.dim() >= 2);
  if (is_plain(x, kernels_take(x))) return plain_magnitudes(x, how.by_row, how.transposed);
  static const auto op = operation<MagnitudesOp>("capstan::magnitudes");
  return op.call(x, how.by_row, how.transposed);
}

Quantised quantise(const at::Tensor& x, const Rounding& how, const at::Tensor& largest) {
  CAPSTAN_ASSERT(x.dim() >= 2);
  CAPSTAN_ASSERT(how.format == at::kFloat8_e4m3fn || how.format == at::kFloat8_e5m2);
  if (is_plain(x, kernels_take(x))) return plain_quantise(x, largest.defined() ? largest : magnitudes(x, how), how);
  static const auto op = operation<QuantiseOp>("capstan::quantise");
  return quantised_of(op.call(x, maybe(largest), how.format, how.by_row, how.transposed, maybe(how.counts)));
}

std::pair<Quantised, Quantised> quantise_both(const at::Tensor& x, const Rounding& how) {
  CAPSTAN_ASSERT(x.dim() == 2);
  if (is_plain(x, kernels_take(x)))
    return {quantise(x, {how.format, how.by_row, false, how.counts}), quantise(x, {how.format, how.by_row, true})};
  static const auto op = operation<QuantiseBothOp>("capstan::quantise_both");
  auto [values, scales, transposed, column_scales] = op.call(x, how.format, how.by_row, maybe(how.counts));
  return {{values, scales}, {transposed, column_scales}};
}

Quantised quantise_swiglu(const at::Tensor& x, const Rounding& how) {
  CAPSTAN_ASSERT(x.dim() == 2 && x.size(1) % 2 == 0 && !how.transposed);
  if (is_plain(x, kernels_take_swiglu(x, how.by_row))) return quantise(swiglu_of(x), how);
  static const auto op = operation<QuantiseSwigluOp>("capstan::quantise_swiglu");
  return quantised_of(op.call(x, how.format, how.by_row, maybe(how.counts)));
}

Quantised quantise_swiglu_backward(const at::Tensor& gradient, const at::Tensor& x, const Rounding& how) {
  CAPSTAN_ASSERT(x.dim() == 2 && gradient.size(0) == x.size(0) && 2 * gradient.size(1) == x.size(1) && !how.transposed);
  const bool alike = gradient.scalar_type() == x.scalar_type();
  if (is_plain(x, alike && kernels_take_swiglu(x, how.by_row))) return quantise(swiglu_gradient(gradient, x), how);
  static const auto op = operation<QuantiseSwigluBackwardOp>("capstan::quantise_swiglu_backward");
  return quantised_of(op.call(gradient, x, how.format, how.by_row, maybe(how.counts)));
}

}  // namespace fp8
