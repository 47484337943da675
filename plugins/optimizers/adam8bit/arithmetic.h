#pragma once
// The update of one element, operation by operation, each rounded by itself: CPUs and GPUs give the same bits. It
// follows bitsandbytes' kernel (kOptimizerStatic8bit2StateBlockwise): decoupled decay comes after the step, and epsilon
// is added to a root that is not corrected yet.
#include <cmath>
#include <cstddef>
#include <cstdint>

#include "codes.h"

namespace adam8bit {

inline constexpr std::size_t states_each = 4;  ///< a slice's, in the order of Rule::states()

ADAM8BIT_ANYWHERE float times(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fmul_rn(a, b);
#else
  return a * b;
#endif
}
ADAM8BIT_ANYWHERE double times(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dmul_rn(a, b);
#else
  return a * b;
#endif
}
ADAM8BIT_ANYWHERE float plus(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fadd_rn(a, b);
#else
  return a + b;
#endif
}
ADAM8BIT_ANYWHERE double plus(double a, double b) {
#ifdef __CUDA_ARCH__
  return __dadd_rn(a, b);
#else
  return a + b;
#endif
}
ADAM8BIT_ANYWHERE float divided(float a, float b) {
#ifdef __CUDA_ARCH__
  return __fdiv_rn(a, b);
#else
  return a / b;
#endif
}
ADAM8BIT_ANYWHERE float root(float x) {
#ifdef __CUDA_ARCH__
  return __fsqrt_rn(x);
#else
  return std::sqrt(x);
#endif
}
ADAM8BIT_ANYWHERE float magnitude(float x) {
#ifdef __CUDA_ARCH__
  return fabsf(x);
#else
  return std::fabs(x);
#endif
}

/// base^exponent by squaring: libraries' powers differ in their last bits.
ADAM8BIT_ANYWHERE double power(double base, std::int64_t exponent) {
  double result = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 == 1) result = times(result, base);
    base = times(base, base);
  }
  return result;
}

/// What all slices of a step share.
struct Settings {
  float beta1, beta2;
  double eps;
};

/// What all elements of a slice share.
struct Numbers {
  float beta1, beta2;
  float rest1, rest2;  ///< 1 - beta
  float grad_factor;   ///< 1 / Update::grad_scale
  float step_size;     ///< -lr · √(1 - beta2^count) / (1 - beta1^count)
  float eps;           ///< eps · √(1 - beta2^count)
  double keep;         ///< 1 - lr · weight_decay
};

ADAM8BIT_ANYWHERE Numbers numbers(const Settings& by, double lr, double weight_decay, double count, float grad_scale) {
  const auto updates = static_cast<std::int64_t>(count);
  const double correction1 = plus(1.0, -power(by.beta1, updates));
#ifdef __CUDA_ARCH__
  const double correction2 = __dsqrt_rn(plus(1.0, -power(by.beta2, updates)));
#else
  const double correction2 = std::sqrt(plus(1.0, -power(by.beta2, updates)));
#endif
  Numbers all{};
  all.beta1 = by.beta1;
  all.beta2 = by.beta2;
  all.rest1 = plus(1.0F, -by.beta1);
  all.rest2 = plus(1.0F, -by.beta2);
  all.grad_factor = divided(1.0F, grad_scale);
  all.step_size = static_cast<float>(times(-lr, correction2) / correction1);
  all.eps = static_cast<float>(times(correction2, by.eps));
  all.keep = plus(1.0, -times(lr, weight_decay));
  return all;
}

/// Both moments after a gradient.
ADAM8BIT_ANYWHERE void accumulate(const Numbers& by, float grad, float& average, float& square) {
  const float g = times(grad, by.grad_factor);
  average = plus(times(average, by.beta1), times(by.rest1, g));
  square = plus(times(square, by.beta2), times(times(by.rest2, g), g));
}

/// The master after a step, in `Wide`: double for float64 masters, else float.
template <class Wide>
ADAM8BIT_ANYWHERE Wide stepped(const Numbers& by, Wide master, float average, float square) {
  const float step = times(by.step_size, divided(average, plus(root(square), by.eps)));
  return times(plus(master, static_cast<Wide>(step)), static_cast<Wide>(by.keep));
}

/// 1 / scale in two factors, so that it is finite for the smallest scale too; of 0 it is 0.
struct Inverse {
  float first, second;
};

ADAM8BIT_ANYWHERE Inverse inverse_of(float scale) {
  constexpr float small = 0x1p-100F, large = 0x1p100F;
  const float first = scale < small ? large : 1.0F;
  return {first, scale == 0 ? 0.0F : divided(1.0F, times(scale, first))};
}

ADAM8BIT_ANYWHERE float part_of(const Inverse& by, float x) { return times(times(magnitude(x), by.first), by.second); }

}  // namespace adam8bit
