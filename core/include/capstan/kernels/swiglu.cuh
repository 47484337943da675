#pragma once
// SwiGLU's numbers on the device: every kernel that computes them gets the same bits.

namespace capstan::kernels {

template <class Number>
__device__ Number sigmoid(Number a) {
  return Number{1} / (Number{1} + exp(-a));
}
__device__ inline float sigmoid(float a) { return 1.0F / (1.0F + __expf(-a)); }

template <class Number>
__device__ Number swiglu_of(Number gate, Number up) {
  return gate * sigmoid(gate) * up;
}

template <class Number>
struct SwigluGradient {
  Number of_gate, of_up;
};

template <class Number>
__device__ SwigluGradient<Number> swiglu_gradient(Number d, Number gate, Number up) {
  const Number s = sigmoid(gate);
  return {d * up * s * (Number{1} + gate * (Number{1} - s)), d * gate * s};
}

}  // namespace capstan::kernels
