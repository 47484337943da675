// AdamW on float32 in host memory. Compiled without contraction of products and sums, so that every instruction set
// rounds alike; the loops are plain and left to the compiler's vectoriser, once for each instruction set.
#include "on_host.h"

#include <ATen/Parallel.h>
#include <capstan/base/error.h>
#include <torch/library.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#ifndef _OPENMP
#error "compile this file with OpenMP: without it at::parallel_for uses one thread"
#endif

namespace capstan::adamw {
namespace {

// A block's gradients and copy stay in the first-level cache between the loops.
constexpr std::int64_t block_elements = 1024;
constexpr std::int64_t blocks_a_thread = 16;  // at least

/// Step's numbers as the loop uses them.
struct Numbers {
  float scale;
  float keep;     ///< 1 - lr · decay
  float towards;  ///< 1 - beta1
  float beta2;
  float square;  ///< 1 - beta2
  float root;    ///< √(1 - beta2^count)
  float eps;
  float step_size;  ///< -lr / (1 - beta1^count)
};

Numbers numbers(const Step& step) {
  const auto f = [](double value) { return static_cast<float>(value); };
  return {step.grad_scale,   f(1 - step.lr * step.decay),
          f(1 - step.beta1), f(step.beta2),
          f(1 - step.beta2), f(std::sqrt(1 - std::pow(step.beta2, step.count))),
          f(step.eps),       f(-step.lr / (1 - std::pow(step.beta1, step.count)))};
}

struct Pointers {
  float* master;
  float* average;
  float* square;
  const void* grad;
  c10::ScalarType grad_type;
  void* copy;
  c10::ScalarType copy_type;
};

[[gnu::always_inline]] inline void update(float* __restrict master, float* __restrict average, float* __restrict square,
                                          const float* __restrict grad, const Numbers& by, std::int64_t n) {
  const auto [scale, keep, towards, beta2, add, root, eps, step_size] = by;
  for (std::int64_t i = 0; i < n; ++i) {
    const float g = grad[i] / scale;
    // torch.lerp: from the nearer end.
    const bool near = std::abs(towards) < 0.5F;
    const float m = std::fma(near ? towards : towards - 1.0F, g - average[i], near ? average[i] : g);
    const float v = std::fma(add * g, g, square[i] * beta2);
    average[i] = m;
    square[i] = v;
    master[i] = master[i] * keep + step_size * m / (std::sqrt(v) / root + eps);
  }
}

[[gnu::always_inline]] inline void from_bfloat16(float* __restrict out, const std::uint16_t* __restrict in,
                                                 std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) out[i] = std::bit_cast<float>(static_cast<std::uint32_t>(in[i]) << 16U);
}

// Rounds to the nearest, ties to even, as c10::BFloat16 does.
[[gnu::always_inline]] inline void to_bfloat16(std::uint16_t* __restrict out, const float* __restrict in,
                                               std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) {
    const auto bits = std::bit_cast<std::uint32_t>(in[i]);
    const auto rounded = (bits + 0x7FFFU + ((bits >> 16U) & 1U)) >> 16U;
    out[i] = static_cast<std::uint16_t>((bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FC0U : rounded);
  }
}

// Non-temporal stores: only the GPU reads the copy, and they avoid reading a cache line before writing it.
void store(std::uint16_t* out, const std::uint16_t* in, std::int64_t n) {
#if defined(__SSE2__)
  constexpr std::int64_t at_once = 8;
  if (reinterpret_cast<std::uintptr_t>(out) % sizeof(__m128i) == 0) {
    std::int64_t i = 0;
    for (; i + at_once <= n; i += at_once) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(out + i), _mm_load_si128(reinterpret_cast<const __m128i*>(in + i)));
    }
    out += i;
    in += i;
    n -= i;
  }
#endif
  std::memcpy(out, in, static_cast<std::size_t>(n) * sizeof(*out));
}

void finish_stores() {
#if defined(__SSE2__)
  _mm_sfence();
#endif
}

[[gnu::always_inline]] inline void blocks(const Pointers& at, const Numbers& by, std::int64_t begin, std::int64_t end) {
  alignas(64) float grads[block_elements];
  alignas(64) std::uint16_t copies[block_elements];
  for (std::int64_t i = begin; i < end; i += block_elements) {
    const auto n = std::min(block_elements, end - i);
    const float* grad = grads;
    if (at.grad_type == c10::kFloat) {
      grad = static_cast<const float*>(at.grad) + i;
    } else if (at.grad_type == c10::kBFloat16) {
      from_bfloat16(grads, static_cast<const std::uint16_t*>(at.grad) + i, n);
    } else {
      std::copy_n(static_cast<const c10::Half*>(at.grad) + i, n, grads);
    }
    update(at.master + i, at.average + i, at.square + i, grad, by, n);
    if (at.copy == nullptr) continue;
    if (at.copy_type == c10::kBFloat16) {
      to_bfloat16(copies, at.master + i, n);
    } else {
      for (std::int64_t j = 0; j < n; ++j) copies[j] = c10::Half(at.master[i + j]).x;
    }
    store(static_cast<std::uint16_t*>(at.copy) + i, copies, n);
  }
  finish_stores();
}

using Blocks = void (*)(const Pointers&, const Numbers&, std::int64_t, std::int64_t);

void plain_blocks(const Pointers& at, const Numbers& by, std::int64_t begin, std::int64_t end) {
  blocks(at, by, begin, end);
}

#if defined(__x86_64__)
[[gnu::target("avx2,fma")]] void avx2_blocks(const Pointers& at, const Numbers& by, std::int64_t begin,
                                             std::int64_t end) {
  blocks(at, by, begin, end);
}

[[gnu::target("avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]] void avx512_blocks(const Pointers& at, const Numbers& by,
                                                                                  std::int64_t begin,
                                                                                  std::int64_t end) {
  blocks(at, by, begin, end);
}

Blocks best_blocks() {
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx512 = __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
                      __builtin_cpu_supports("avx512dq") != 0 && __builtin_cpu_supports("avx512vl") != 0;
  if (avx2 && avx512) return &avx512_blocks;
  return avx2 ? &avx2_blocks : &plain_blocks;
}
#else
Blocks best_blocks() { return &plain_blocks; }
#endif

float* floats(const at::Tensor& tensor, std::int64_t n) {
  CAPSTAN_ASSERT(tensor.is_cpu() && tensor.is_contiguous() && tensor.numel() == n);
  return tensor.data_ptr<float>();
}

bool is_half(c10::ScalarType type) { return type == c10::kBFloat16 || type == c10::kHalf; }

// For tools/bench/offload.py: lr, beta1, beta2, decay, eps, count, scale.
void adamw_cpu(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
               const at::Tensor& grad, const std::optional<at::Tensor>& copy, at::ArrayRef<double> step) {
  constexpr std::size_t numbers = 7;
  TORCH_CHECK(step.size() == numbers, "capstan::adamw_ takes ", numbers, " numbers");
  update_on_host(master, exp_avg, exp_avg_sq, grad, copy.value_or(at::Tensor()),
                 {step[0], step[1], step[2], step[3], step[4], step[5], static_cast<float>(step[numbers - 1])});
}

}  // namespace

TORCH_LIBRARY_FRAGMENT(capstan, m) {
  m.def(
      "adamw_(Tensor(a!) master, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, Tensor grad, Tensor(d!)? copy, "
      "float[] step) -> ()");
}

TORCH_LIBRARY_IMPL(capstan, CPU, m) { m.impl("adamw_", &adamw_cpu); }

void update_on_host(const at::Tensor& master, const at::Tensor& exp_avg, const at::Tensor& exp_avg_sq,
                    const at::Tensor& grad, const at::Tensor& copy, const Step& step) {
  const auto n = master.numel();
  CAPSTAN_ASSERT(grad.is_cpu() && grad.is_contiguous() && grad.numel() == n);
  CAPSTAN_ASSERT(grad.scalar_type() == c10::kFloat || is_half(grad.scalar_type()));
  Pointers at{floats(master, n), floats(exp_avg, n), floats(exp_avg_sq, n), grad.const_data_ptr(), grad.scalar_type(),
              nullptr,           c10::kBFloat16};
  if (copy.defined()) {
    CAPSTAN_ASSERT(copy.is_cpu() && copy.is_contiguous() && copy.numel() == n && is_half(copy.scalar_type()));
    at.copy = copy.mutable_data_ptr();
    at.copy_type = copy.scalar_type();
  }
  const auto by = numbers(step);
  const auto run = best_blocks();
  const auto count = (n + block_elements - 1) / block_elements;
  at::parallel_for(0, count, blocks_a_thread, [&](std::int64_t begin, std::int64_t end) {
    run(at, by, begin * block_elements, std::min(n, end * block_elements));
  });
}

}  // namespace capstan::adamw
