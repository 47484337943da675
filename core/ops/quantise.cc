#include "ops/quantise.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <torch/library.h>

#include <cstdint>
#include <limits>
#include <optional>
#include <tuple>
#include <utility>

#include "ops/operators.h"

namespace capstan::ops {
namespace {

using Maybe = std::optional<at::Tensor>;
using Pair = std::tuple<at::Tensor, at::Tensor>;
using Both = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

// Both formats end at 0.875 · 2^n: 448 and 57344.
constexpr double top_mantissa = 0.875;
int top_exponent(at::ScalarType format) { return format == at::kFloat8_e4m3fn ? 9 : 16; }
double top(at::ScalarType format) { return format == at::kFloat8_e4m3fn ? 448 : 57344; }

std::int64_t padded(std::int64_t rows) {
  return (rows + quantised_multiple - 1) / quantised_multiple * quantised_multiple;
}

at::Tensor padded_transpose(const at::Tensor& x) {
  const auto rest = padded(x.size(-2)) - x.size(-2);
  return (rest == 0 ? x : at::constant_pad_nd(x, {0, 0, 0, rest})).transpose(-1, -2);
}

at::Tensor magnitudes_meta(const at::Tensor& x, bool by_row, bool transposed) {
  auto shape = x.sizes().vec();
  if (transposed) std::swap(shape[shape.size() - 2], shape.back());
  shape.back() = 1;
  if (!by_row) shape = {1, 1};
  return at::empty(shape, x.options().dtype(at::kFloat));
}

Pair quantise_meta(const at::Tensor& x, const Maybe&, at::ScalarType format, bool by_row, bool transposed,
                   const Maybe& /*counts*/) {
  auto shape = x.sizes().vec();
  if (transposed) {
    std::swap(shape[shape.size() - 2], shape.back());
    shape.back() = padded(shape.back());
  }
  return {at::empty(shape, x.options().dtype(format)), magnitudes_meta(x, by_row, transposed)};
}

Both quantise_both_meta(const at::Tensor& x, at::ScalarType format, bool by_row, const Maybe& /*counts*/) {
  return std::tuple_cat(quantise_meta(x, {}, format, by_row, false, {}),
                        quantise_meta(x, {}, format, by_row, true, {}));
}

Pair quantise_swiglu_meta(const at::Tensor& x, at::ScalarType format, bool by_row, const Maybe&) {
  const auto inner = x.narrow(-1, 0, x.size(-1) / 2);
  return quantise_meta(inner, {}, format, by_row, false, {});
}

Pair quantise_swiglu_backward_meta(const at::Tensor&, const at::Tensor& x, at::ScalarType format, bool by_row,
                                   const Maybe&) {
  return quantise_meta(x, {}, format, by_row, false, {});
}

void add_counts(const at::Tensor& counts, const at::Tensor& x, const at::Tensor& values) {
  constexpr std::int64_t counted_rows = 16;
  const auto rows = [](const at::Tensor& all) { return all.flatten(0, -2).slice(0, 0, c10::nullopt, counted_rows); };
  const auto some = rows(x).ne(0), zeroed = rows(values).to(at::kFloat).eq(0).logical_and(some);
  const auto bad = values.flatten(0, -2).narrow(1, 0, 1).to(at::kFloat).isnan();
  const auto all = at::full({}, bad.numel(), counts.options());
  counts.add_(at::stack({zeroed.sum(), some.sum(), bad.sum(), all}));
}

Maybe maybe(const at::Tensor& x) { return x.defined() ? Maybe(x) : std::nullopt; }

template <class Signature>
auto operation(const char* name) {
  return c10::Dispatcher::singleton().findSchemaOrThrow(name, "").typed<Signature>();
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
}

TORCH_LIBRARY_IMPL(capstan, Meta, m) {
  m.impl("magnitudes", &magnitudes_meta);
  m.impl("quantise", &quantise_meta);
  m.impl("quantise_both", &quantise_both_meta);
  m.impl("quantise_swiglu", &quantise_swiglu_meta);
  m.impl("quantise_swiglu_backward", &quantise_swiglu_backward_meta);
}

at::Tensor plain_magnitudes(const at::Tensor& x, bool by_row, bool transposed) {
  constexpr double largest = std::numeric_limits<double>::infinity();
  const std::int64_t dim = transposed ? -2 : -1;
  if (!by_row) {
    if (x.numel() == 0) return at::zeros({1, 1}, x.options().dtype(at::kFloat));
    return at::linalg_vector_norm(x, largest).to(at::kFloat).view({1, 1});
  }
  if (x.size(dim) == 0) return magnitudes_meta(x, by_row, transposed).zero_();
  const auto of_rows = at::linalg_vector_norm(x, largest, at::IntArrayRef{dim}, /*keepdim=*/true).to(at::kFloat);
  return transposed ? of_rows.transpose(-1, -2).contiguous() : of_rows;
}

at::Tensor scales_for(const at::Tensor& magnitudes, at::ScalarType format) {
  const auto [mantissa, exponent] = at::frexp(magnitudes);
  const auto power = exponent.to(at::kInt) + mantissa.gt(top_mantissa) - top_exponent(format);
  const auto scales = power.clamp(-126, 127).add(127).bitwise_left_shift(23).view(at::kFloat);
  return scales.masked_fill(magnitudes.isfinite().logical_not(), std::numeric_limits<float>::quiet_NaN());
}

Pair plain_quantise(const at::Tensor& x, const at::Tensor& magnitudes, at::ScalarType format, bool transposed,
                    const Maybe& counts) {
  const auto scales = scales_for(magnitudes, format);
  const auto rows = transposed ? padded_transpose(x) : x;
  const auto scaled = rows.mul(scales.reciprocal().to(x.scalar_type())).clamp_(-top(format), top(format));
  const at::Tensor values = scaled.to(format).contiguous();
  if (counts && !transposed) add_counts(*counts, x, values);
  return {values, scales};
}

Pair plain_quantise_swiglu(const at::Tensor& x, at::ScalarType format, bool by_row, const Maybe& counts) {
  static const auto op = operation<Swiglu>("capstan::swiglu");
  const auto made = quantise(op.call(x), {format, by_row, false, counts.value_or(at::Tensor())});
  return {made.values, made.scales};
}

Pair plain_quantise_swiglu_backward(const at::Tensor& gradient, const at::Tensor& x, at::ScalarType format, bool by_row,
                                    const Maybe& counts) {
  static const auto op = operation<SwigluBackward>("capstan::swiglu_backward");
  const auto made = quantise(op.call(gradient, x), {format, by_row, false, counts.value_or(at::Tensor())});
  return {made.values, made.scales};
}

at::Tensor magnitudes(const at::Tensor& x, const Rounding& how) {
  CAPSTAN_ASSERT(x.dim() >= 2);
  if (x.is_cpu()) return plain_magnitudes(x, how.by_row, how.transposed);
  static const auto op = operation<at::Tensor(const at::Tensor&, bool, bool)>("capstan::magnitudes");
  return op.call(x, how.by_row, how.transposed);
}

Quantised quantise(const at::Tensor& x, const Rounding& how, const at::Tensor& largest) {
  CAPSTAN_ASSERT(x.dim() >= 2);
  CAPSTAN_ASSERT(how.format == at::kFloat8_e4m3fn || how.format == at::kFloat8_e5m2);
  if (x.is_cpu()) {
    auto [values, scales] = plain_quantise(x, largest.defined() ? largest : magnitudes(x, how), how.format,
                                           how.transposed, maybe(how.counts));
    return {values, scales};
  }
  static const auto op =
      operation<Pair(const at::Tensor&, const Maybe&, at::ScalarType, bool, bool, const Maybe&)>("capstan::quantise");
  auto [values, scales] = op.call(x, maybe(largest), how.format, how.by_row, how.transposed, maybe(how.counts));
  return {values, scales};
}

std::pair<Quantised, Quantised> quantise_both(const at::Tensor& x, const Rounding& how) {
  CAPSTAN_ASSERT(x.dim() == 2);
  if (x.is_cpu())
    return {quantise(x, {how.format, how.by_row, false, how.counts}), quantise(x, {how.format, how.by_row, true})};
  static const auto op =
      operation<Both(const at::Tensor&, at::ScalarType, bool, const Maybe&)>("capstan::quantise_both");
  auto [values, scales, transposed, column_scales] = op.call(x, how.format, how.by_row, maybe(how.counts));
  return {{values, scales}, {transposed, column_scales}};
}

Quantised quantise_swiglu(const at::Tensor& x, const Rounding& how) {
  CAPSTAN_ASSERT(x.dim() == 2 && x.size(1) % 2 == 0 && !how.transposed);
  static const auto op =
      operation<Pair(const at::Tensor&, at::ScalarType, bool, const Maybe&)>("capstan::quantise_swiglu");
  const auto counts = maybe(how.counts);
  auto [values, scales] = x.is_cpu() ? plain_quantise_swiglu(x, how.format, how.by_row, counts)
                                     : op.call(x, how.format, how.by_row, counts);
  return {values, scales};
}

Quantised quantise_swiglu_backward(const at::Tensor& gradient, const at::Tensor& x, const Rounding& how) {
  CAPSTAN_ASSERT(x.dim() == 2 && gradient.size(0) == x.size(0) && 2 * gradient.size(1) == x.size(1) && !how.transposed);
  static const auto op = operation<Pair(const at::Tensor&, const at::Tensor&, at::ScalarType, bool, const Maybe&)>(
      "capstan::quantise_swiglu_backward");
  const auto counts = maybe(how.counts);
  auto [values, scales] = x.is_cpu() ? plain_quantise_swiglu_backward(gradient, x, how.format, how.by_row, counts)
                                     : op.call(gradient, x, how.format, how.by_row, counts);
  return {values, scales};
}

}  // namespace capstan::ops
