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
  const auto first = turning(scaling.fast_turns), last = turning(scaling.slow_turns);
  const auto low = std::max(scaling.whole_limits ? std::floor(first) : first, 0.0);
  auto high = std::min(scaling.whole_limits ? std::ceil(last) : last, static_cast<double>(dim - 1));
  if (low == high) high += 0.001;  // transformers' own, against a division by zero
  const auto ramp = ((at::arange(dim / 2, periods.options()) - low) / (high - low)).clamp(0, 1);
  const auto kept = 1 - ramp;
  return 1.0 / (scaling.factor * periods) * (1 - kept) + 1.0 / periods * kept;
}

// The periods are multiplied before they are inverted, which is transformers' order.
at::Tensor longrope(const at::Tensor& periods, const RotaryScaling& scaling) {
  return 1.0 / (at::tensor(scaling.divisors, periods.options()) * periods);
}

at::Tensor all_frequencies(const at::Tensor& periods, std::int64_t dim, double theta, const RotaryScaling& scaling) {
  if (scaling.kind == RotaryScaling::Kind::yarn) return yarn(periods, dim, theta, scaling);
  if (scaling.kind == RotaryScaling::Kind::longrope) return longrope(periods, scaling);
  return scaled(1.0 / periods, scaling);
}

// How many of a head's numbers turn.
std::int64_t turned_of(std::int64_t dim, const RotaryForm& form) { return form.turned > 0 ? form.turned : dim; }

std::vector<double> frequencies_in(at::ScalarType type, std::int64_t head, double theta, const RotaryScaling& scaling,
                                   const RotaryForm& form) {
  const auto turned = turned_of(head, form), dim = form.of_whole_head ? head : turned;
  const auto exponents = at::arange(0, dim, 2, at::TensorOptions(at::kLong)).to(type) / dim;
  const auto periods = at::pow(at::Scalar(theta), exponents);
  const auto values = all_frequencies(periods, dim, theta, scaling).to(at::kDouble);
  std::vector<double> kept{values.const_data_ptr<double>(), values.const_data_ptr<double>() + turned / 2};
  if (form.of_whole_head) kept.resize(static_cast<std::size_t>(head / 2), 0);  // these pairs stay as they are
  return kept;
}

double each_factor(const RotaryScaling& scaling) {
  if (scaling.kind == RotaryScaling::Kind::yarn)
    return scaling.attention_factor.value_or(scaling.factor <= 1 ? 1 : 0.1 * std::log(scaling.factor) + 1);
  if (scaling.kind != RotaryScaling::Kind::longrope) return 1;
  const auto length = static_cast<double>(scaling.original_length);
  return scaling.attention_factor.value_or(
      scaling.factor <= 1 ? 1 : std::sqrt(1 + std::log(scaling.factor) / std::log(length)));
}

}  // namespace

double RotaryScaling::score_factor() const {
  const auto each = each_factor(*this);
  return each * each;
}

Rotary::Rotary(std::int64_t dim, double theta, const RotaryScaling& scaling, const RotaryForm& form)
    : form_(form),
      part_factor_(turned_of(dim, form) < dim ? each_factor(scaling) : 1),
      single_(frequencies_in(at::kFloat, dim, theta, scaling, form)),
      exact_(frequencies_in(at::kDouble, dim, theta, scaling, form)) {
  if (form_.turned == dim || form_.of_whole_head) form_.turned = 0;
}

at::Tensor Rotary::forward(const at::Tensor& x, const at::Tensor& positions) const {
  if (is_plain()) return ops::rotary(x, positions, frequencies(x.scalar_type()));
  const auto turned = turned_of(x.size(-1), form_);
  auto part = x.narrow(-1, 0, turned);
  // Pairs become halves, turn, and become pairs again.
  if (form_.interleaved) part = part.unflatten(-1, {-1, 2}).transpose(-1, -2).flatten(-2).contiguous();
  part = ops::rotary(part, positions, frequencies(x.scalar_type()));
  if (form_.interleaved) part = part.unflatten(-1, {2, -1}).transpose(-1, -2).flatten(-2);
  if (part_factor_ != 1) part = part * part_factor_;
  return turned == x.size(-1) ? part.contiguous() : at::cat({part, x.narrow(-1, turned, x.size(-1) - turned)}, -1);
}

ops::RotaryHeads Rotary::forward_fused_(const at::Tensor& fused, std::int64_t queries, std::int64_t keys,
                                        const at::Tensor& positions) const {
  return ops::rotary_heads_(fused, queries, keys, positions, frequencies(fused.scalar_type()));
}

}  // namespace capstan::nn
