#include "kernel.h"

#include <capstan/kernels/tensor_blocks.h>
#include <capstan/kernels/floats.cuh>

namespace capstan::adamw {
namespace {

using kernels::Float;
using kernels::Packed;

constexpr int threads = 256;
constexpr int width = 4;

/// ATen's fused AdamW, operation by operation (fused_adam_utils.cuh), so that the bits are the same.
struct Rule {
  float lr, beta1, beta2, decay, eps, scale, correction1, correction2_root;
  __device__ void update(float& master, float& average, float& square, float grad) const {
    grad /= scale;
    if (decay != 0) master -= lr * decay * master;
    average = fmaf(beta1, average, fmaf(-beta1, grad, grad));
    square = fmaf(beta2, square, fmaf(-beta2, grad * grad, grad * grad));
    const float step_size = lr / correction1;
    const float denominator = sqrtf(square) / correction2_root + eps;
    master -= step_size * average / denominator;
  }
};

/// Elements [i, i + n) of one tensor.
template <class T, class Grad, class Copy, int n>
__device__ void update(const List& list, int tensor, std::int64_t i, const Rule& rule) {
  using Pack = Packed<T, n>;
  auto& master = *reinterpret_cast<Pack*>(static_cast<T*>(list.master[tensor]) + i);
  auto& average = *reinterpret_cast<Pack*>(static_cast<T*>(list.average[tensor]) + i);
  auto& square = *reinterpret_cast<Pack*>(static_cast<T*>(list.square[tensor]) + i);
  const auto grad = *reinterpret_cast<const Packed<Grad, n>*>(static_cast<const Grad*>(list.grad[tensor]) + i);
  Pack x = master, m = average, v = square;
  Packed<Copy, n> copy;
#pragma unroll
  for (int j = 0; j < n; ++j) {
    float a = Float<T>::load(x.value[j]), b = Float<T>::load(m.value[j]), c = Float<T>::load(v.value[j]);
    rule.update(a, b, c, Float<Grad>::load(grad.value[j]));
    x.value[j] = Float<T>::store(a);
    m.value[j] = Float<T>::store(b);
    v.value[j] = Float<T>::store(c);
    copy.value[j] = Float<Copy>::store(Float<T>::load(x.value[j]));
  }
  master = x;
  average = m;
  square = v;
  if (list.copy[tensor] != nullptr)
    *reinterpret_cast<Packed<Copy, n>*>(static_cast<Copy*>(list.copy[tensor]) + i) = copy;
}

template <class T>
__device__ bool in_packs(const void* pointer) {
  return kernels::is_aligned(pointer, sizeof(Packed<T, width>));
}

template <class T, class Grad, class Copy>
__global__ void adamw(const __grid_constant__ List list) {
  if (*list.by.skip == 1) return;
  const auto [tensor, begin, count] = kernels::part_of(list, blockIdx.x, List::block);
  const Numbers& by = list.by;
  const float updates = *by.updates;
  const Rule rule{by.lr,
                  by.beta1,
                  by.beta2,
                  by.decay,
                  by.eps,
                  *by.grad_scale,
                  1 - powf(by.beta1, updates),
                  sqrtf(1 - powf(by.beta2, updates))};
  const bool wide = in_packs<T>(list.master[tensor]) && in_packs<T>(list.average[tensor]) &&
                    in_packs<T>(list.square[tensor]) && in_packs<Grad>(list.grad[tensor]) &&
                    in_packs<Copy>(list.copy[tensor]);
  const std::int64_t packed = wide ? count / width * width : 0;
  for (std::int64_t i = std::int64_t{threadIdx.x} * width; i < packed; i += threads * width)
    update<T, Grad, Copy, width>(list, tensor, begin + i, rule);
  for (std::int64_t i = packed + threadIdx.x; i < count; i += threads)
    update<T, Grad, Copy, 1>(list, tensor, begin + i, rule);
}

}  // namespace

void update(const List& list, const Types& types, CUstream_st* stream) {
  const auto blocks = static_cast<unsigned>(list.first_block[list.count]);
  if (blocks == 0) return;
  const auto launch = [&]<class T, class Grad, class Copy>(T, Grad, Copy) {
    adamw<T, Grad, Copy><<<blocks, threads, 0, stream>>>(list);
  };
  const bool is_wide = types.gradient == FloatType::float32;
  if (types.master == FloatType::bfloat16) return launch(__nv_bfloat16{}, __nv_bfloat16{}, __nv_bfloat16{});
  if (types.master == FloatType::half) return launch(__half{}, __half{}, __half{});
  if (types.copy == FloatType::half) {
    is_wide ? launch(float{}, float{}, __half{}) : launch(float{}, __half{}, __half{});
  } else {
    is_wide ? launch(float{}, float{}, __nv_bfloat16{}) : launch(float{}, __nv_bfloat16{}, __nv_bfloat16{});
  }
}

}  // namespace capstan::adamw
