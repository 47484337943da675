#pragma once

namespace capstan::ops {

/// A drawn number in the tensor's dtype. It is rounded to float32 first, so that every narrower dtype holds the
/// rounding of the same number.
template <class T>
T rounded(double value) {
  return static_cast<T>(static_cast<float>(value));
}
template <>
inline double rounded<double>(double value) {
  return value;
}

}  // namespace capstan::ops
