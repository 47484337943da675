#include <capstan/nn/rotary.h>

#include <algorithm>
#include <cmath>
#include <numbers>

namespace capstan::nn {
namespace {

// transformers' modeling_rope_utils, operation by operation, so that float32 gives the same bits.
at::Tensor scaled(const at::Tensor& frequencies, const RotaryScaling& scaling) {
  if (scaling.kind == RotaryScaling::Kind::none) return frequencies;
  if (scaling.kind == RotaryScaling::Kind::linear) return frequencies / scaling.factor;
  const auto length = static_cast<double>(scaling.original_length);
  const auto longest = length / scaling.low_frequency_factor, shortest = length / scaling.high_frequency_factor;
  const auto wavelength = 2 * std::numbers::pi / frequencies;
  const auto smooth = (length / wavelength - scaling.low_frequency_factor) /
                      (scaling.high_frequency_factor - scaling.low_frequency_factor);
  const auto blended = (1 - smooth) * frequencies / scaling.factor + smooth * frequencies;
  const auto outer = at::where(wavelength > longest, frequencies / scaling.factor, frequencies);
  return at::where((wavelength < shortest).logical_or(wavelength > longest), outer, blended);
}

// The same for YaRN: from `low` to `high` of the dim / 2 frequencies, kept ones blend into divided ones.
at::Tensor yarn(const at::Tensor& periods, std::int64_t dim, double theta, const RotaryScaling& scaling) {
  const auto turning = [&](double turns) {
    const auto length = static_cast<double>(scaling.original_length);
    return static_cast<double>(dim) * std::log(length / (turns * 2 * std::numbers::pi)) / (2 * std::log(theta));
  };
  const auto low = std::max(std::floor(turning(scaling.fast_turns)), 0.0);
  auto high = std::min(std::ceil(turning(scaling.slow_turns)), static_cast<double>(dim - 1));
  if (low == high) high += 0.001;  // transformers' own, against a division by zero
  const auto ramp = ((at::arange(dim / 2, periods.options()) - low) / (high - low)).clamp(0, 1);
  const auto kept = 1 - ramp;
  return 1.0 / (scaling.factor * periods) * (1 - kept) + 1.0 / periods * kept;
}

std::vector<double> frequencies_in(at::ScalarType type, std::int64_t dim, double theta, const RotaryScaling& scaling) {
  const auto exponents = at::arange(0, dim, 2, at::TensorOptions(at::kLong)).to(type) / dim;
  const auto periods = at::pow(at::Scalar(theta), exponents);
  const bool is_yarn = scaling.kind == RotaryScaling::Kind::yarn;
  const auto values = (is_yarn ? yarn(periods, dim, theta, scaling) : scaled(1.0 / periods, scaling)).to(at::kDouble);
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

}  // namespace

double RotaryScaling::score_factor() const {
  if (kind != Kind::yarn) return 1;
  const auto each = attention_factor.value_or(factor <= 1 ? 1 : 0.1 * std::log(factor) + 1);
  return each * each;
}

Rotary::Rotary(std::int64_t dim, double theta, const RotaryScaling& scaling)
    : single_(frequencies_in(at::kFloat, dim, theta, scaling)),
      exact_(frequencies_in(at::kDouble, dim, theta, scaling)) {}

at::Tensor Rotary::forward(const at::Tensor& x, const at::Tensor& positions) const {
  return ops::rotary(x, positions, frequencies(x.scalar_type()));
}

ops::RotaryHeads Rotary::forward_fused_(const at::Tensor& fused, std::int64_t queries, std::int64_t keys,
                                        const at::Tensor& positions) const {
  return ops::rotary_heads_(fused, queries, keys, positions, frequencies(fused.scalar_type()));
}

}  // namespace capstan::nn
