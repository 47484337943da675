// The causal convolution with SiLU, and the gate: numbers are read and written once, in packs of 16 bytes.
#include <capstan/kernels/floats.cuh>

#include "mixing_kernels.h"

namespace qwen3_5 {
namespace {

using capstan::kernels::Float;
using capstan::kernels::FloatType;
using capstan::kernels::Packed;

constexpr int threads = 128, width = 8, taps = convolution_taps, run = convolution_run;

template <class T>
using Pack = Packed<T, width>;

struct Eight {
  float value[width];
};

template <class T>
__device__ Eight wide(const T* from) {
  const Pack<T> pack = *reinterpret_cast<const Pack<T>*>(from);
  Eight to;
#pragma unroll
  for (int i = 0; i < width; ++i) to.value[i] = Float<T>::load(pack.value[i]);
  return to;
}

template <class T>
__device__ void store(T* to, const Eight& from) {
  Pack<T> pack;
#pragma unroll
  for (int i = 0; i < width; ++i) pack.value[i] = Float<T>::store(from.value[i]);
  *reinterpret_cast<Pack<T>*>(to) = pack;
}

__device__ float sigmoid(float x) { return 1.0F / (1.0F + __expf(-x)); }

/// The gradient of x from that of silu(x).
__device__ float silu_back(float gradient, float x) {
  const float s = sigmoid(x);
  return gradient * s * (1.0F + x * (1.0F - s));
}

/// What a thread of the convolution has: eight channels of a run of a row's tokens.
struct Run {
  std::int64_t channel, row, begin, end;
  __device__ explicit Run(const ConvolutionCall& call)
      : channel((std::int64_t{blockIdx.x} * threads + threadIdx.x) * width),
        row(blockIdx.z),
        begin(std::int64_t{blockIdx.y} * run),
        end(min(begin + run, static_cast<std::int64_t>(call.length))) {}
};

/// How many tokens before it a token sees.
__device__ int seen_before(const ConvolutionCall& call, std::int64_t row, std::int64_t token) {
  std::int64_t seen = token;
  if (call.positions != nullptr) {
    const std::int64_t position = call.positions[row * call.position_strides[0] + token * call.position_strides[1]];
    seen = position < seen ? position : seen;
  }
  return static_cast<int>(seen < taps ? seen : taps);
}

/// The weights of eight channels: [back], from w [channels, taps] whose last is of the token itself.
template <class T>
struct Weights {
  Eight of[taps];
  __device__ Weights(const void* w, std::int64_t channel) {
    const T* const from = static_cast<const T*>(w) + channel * taps;
#pragma unroll
    for (int part = 0; part < taps; ++part) {
      const Eight eight = wide(from + part * width);
#pragma unroll
      for (int i = 0; i < width; ++i) of[taps - 1 - i % taps].value[part * (width / taps) + i / taps] = eight.value[i];
    }
  }
};

/// x of the last tokens, [back], and what it takes for the next.
template <class T>
struct Window {
  const ConvolutionCall& call;
  const T* x;  // of the row and the channels
  Eight of[taps];
  __device__ Window(const ConvolutionCall& call_in, const Run& mine)
      : call(call_in), x(static_cast<const T*>(call.x) + mine.row * call.batch_stride + mine.channel) {
#pragma unroll
    for (int back = 0; back < taps; ++back) {  // as the token before the run has it
      const std::int64_t token = mine.begin - 1 - back;
      of[back] = token >= 0 ? wide(x + token * call.token_stride) : Eight{};
    }
  }
  __device__ void go_to(std::int64_t token) {
#pragma unroll
    for (int back = taps - 1; back > 0; --back) of[back] = of[back - 1];
    of[0] = wide(x + token * call.token_stride);
  }
  __device__ Eight sums(const Weights<T>& w, int seen) const {
    Eight sum;
#pragma unroll
    for (int i = 0; i < width; ++i) {
      sum.value[i] = of[0].value[i] * w.of[0].value[i];
#pragma unroll
      for (int back = 1; back < taps; ++back)
        sum.value[i] += back <= seen ? of[back].value[i] * w.of[back].value[i] : 0.0F;
    }
    return sum;
  }
};

template <class T>
__global__ void __launch_bounds__(threads) forward(const __grid_constant__ ConvolutionCall call) {
  const Run mine(call);
  if (mine.channel >= call.channels) return;
  const Weights<T> w(call.w, mine.channel);
  Window<T> window(call, mine);
  T* const out = static_cast<T*>(call.out) + mine.row * call.length * call.channels + mine.channel;
  for (std::int64_t token = mine.begin; token < mine.end; ++token) {
    window.go_to(token);
    Eight sum = window.sums(w, seen_before(call, mine.row, token));
#pragma unroll
    for (int i = 0; i < width; ++i) sum.value[i] *= sigmoid(sum.value[i]);
    store(out + token * call.channels, sum);
  }
}

/// The gradients of weights, of the run's own tokens.
__device__ void store_weights(float* to, const Eight (&of_w)[taps]) {
#pragma unroll
  for (int i = 0; i < width; ++i) {
    *reinterpret_cast<float4*>(to + i * taps) =
        float4{of_w[3].value[i], of_w[2].value[i], of_w[1].value[i], of_w[0].value[i]};
  }
}

/// A token's x gets from the sums of itself and of the tokens after it, so that a thread goes three tokens beyond its
/// run: `due` has, by how far back, what the last tokens have been given so far.
template <class T, bool has_weights>
__global__ void __launch_bounds__(threads) backward(const __grid_constant__ ConvolutionCall call) {
  const Run mine(call);
  if (mine.channel >= call.channels) return;
  const Weights<T> w(call.w, mine.channel);
  Window<T> window(call, mine);
  const std::int64_t row = mine.row * call.length * call.channels + mine.channel;
  Eight due[taps] = {}, of_w[taps] = {};
  for (std::int64_t token = mine.begin; token < mine.end + taps - 1; ++token) {
#pragma unroll
    for (int back = taps - 1; back > 0; --back) due[back] = due[back - 1];
    due[0] = Eight{};
    if (token < call.length) {
      const int seen = seen_before(call, mine.row, token);
      window.go_to(token);
      Eight of_sum = wide(static_cast<const T*>(call.gradient) + row + token * call.channels);
      const Eight sum = window.sums(w, seen);
#pragma unroll
      for (int i = 0; i < width; ++i) {
        of_sum.value[i] = silu_back(of_sum.value[i], sum.value[i]);
#pragma unroll
        for (int back = 0; back < taps; ++back) {
          if (back > seen) continue;
          due[back].value[i] += of_sum.value[i] * w.of[back].value[i];
          if (has_weights && token < mine.end) of_w[back].value[i] += of_sum.value[i] * window.of[back].value[i];
        }
      }
    }
    const std::int64_t done = token - (taps - 1);
    if (done >= mine.begin) store(static_cast<T*>(call.of_x) + row + done * call.channels, due[taps - 1]);
  }
  if constexpr (has_weights) {
    const std::int64_t part = mine.row * gridDim.y + blockIdx.y;
    store_weights(call.of_w + (part * call.channels + mine.channel) * taps, of_w);
  }
}

template <class T>
__global__ void __launch_bounds__(threads) gate_forward(const __grid_constant__ GateCall call) {
  const std::int64_t packs = call.columns / width, at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= call.rows * packs) return;
  const std::int64_t row = at / packs, column = at % packs * width;
  Eight x = wide(static_cast<const T*>(call.x) + at * width);
  const Eight z = wide(static_cast<const T*>(call.z) + row * call.z_stride + column);
#pragma unroll
  for (int i = 0; i < width; ++i) x.value[i] *= z.value[i] * sigmoid(z.value[i]);
  store(static_cast<T*>(call.out) + at * width, x);
}

template <class T>
__global__ void __launch_bounds__(threads) gate_backward(const __grid_constant__ GateCall call) {
  const std::int64_t packs = call.columns / width, at = std::int64_t{blockIdx.x} * threads + threadIdx.x;
  if (at >= call.rows * packs) return;
  const std::int64_t row = at / packs, column = at % packs * width;
  const Eight gradient = wide(static_cast<const T*>(call.gradient) + at * width);
  Eight x = wide(static_cast<const T*>(call.x) + at * width);
  Eight z = wide(static_cast<const T*>(call.z) + row * call.z_stride + column);
#pragma unroll
  for (int i = 0; i < width; ++i) {
    const float by = z.value[i], of_gate = gradient.value[i] * x.value[i];
    x.value[i] = gradient.value[i] * by * sigmoid(by);
    z.value[i] = silu_back(of_gate, by);
  }
  store(static_cast<T*>(call.of_x) + at * width, x);
  store(static_cast<T*>(call.of_z) + at * width, z);
}

dim3 grid_of(const ConvolutionCall& call) {
  const auto parts = [](std::int64_t all, std::int64_t each) {
    return static_cast<unsigned>(capstan::kernels::parts_of(all, each));
  };
  return {parts(call.channels, threads * width), parts(call.length, run), static_cast<unsigned>(call.batch)};
}

unsigned blocks_of(const GateCall& call) {
  return static_cast<unsigned>(capstan::kernels::parts_of(call.rows * call.columns / width, threads));
}

/// body(T{}) of the 16-bit types.
template <class Body>
void with_narrow(FloatType type, const Body& body) {
  if (type == FloatType::half) {
    body(__half{});
  } else {
    body(__nv_bfloat16{});
  }
}

}  // namespace

void convolution(const ConvolutionCall& call, CUstream_st* stream) {
  with_narrow(call.type, [&](auto zero) { forward<decltype(zero)><<<grid_of(call), threads, 0, stream>>>(call); });
}

void convolution_back(const ConvolutionCall& call, CUstream_st* stream) {
  with_narrow(call.type, [&](auto zero) {
    using T = decltype(zero);
    const auto kernel = call.of_w != nullptr ? backward<T, true> : backward<T, false>;
    kernel<<<grid_of(call), threads, 0, stream>>>(call);
  });
}

void gate(const GateCall& call, CUstream_st* stream) {
  with_narrow(call.type,
              [&](auto zero) { gate_forward<decltype(zero)><<<blocks_of(call), threads, 0, stream>>>(call); });
}

void gate_back(const GateCall& call, CUstream_st* stream) {
  with_narrow(call.type,
              [&](auto zero) { gate_backward<decltype(zero)><<<blocks_of(call), threads, 0, stream>>>(call); });
}

}  // namespace qwen3_5
