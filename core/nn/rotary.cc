#include <capstan/nn/rotary.h>
#include <capstan/ops/rotary.h>

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

std::vector<double> frequencies_in(at::ScalarType type, std::int64_t dim, double theta, const RotaryScaling& scaling) {
  const auto exponents = at::arange(0, dim, 2, at::TensorOptions(at::kLong)).to(type) / dim;
  const auto values = scaled(1.0 / at::pow(at::Scalar(theta), exponents), scaling).to(at::kDouble);
  return {values.const_data_ptr<double>(), values.const_data_ptr<double>() + values.numel()};
}

}  // namespace

Rotary::Rotary(std::int64_t dim, double theta, const RotaryScaling& scaling)
    : single_(frequencies_in(at::kFloat, dim, theta, scaling)),
      exact_(frequencies_in(at::kDouble, dim, theta, scaling)) {}

at::Tensor Rotary::forward(const at::Tensor& x, const at::Tensor& positions) const {
  return ops::rotary(x, positions, x.scalar_type() == at::kDouble ? exact_ : single_);
}

}  // namespace capstan::nn
