#include <capstan/kernels/floats.cuh>
#include <capstan/kernels/warps.cuh>

#include "kernels.h"

namespace qwen3 {
namespace {

namespace kernels = capstan::kernels;
using kernels::Float;
using kernels::Packed;
using kernels::warp;

constexpr int threads = 128;
constexpr int most = Frequencies::capacity / warp;  // numbers that a lane has of a half of its head

/// How many thread blocks a multiprocessor has at once, so that enough loads are on their way; float64 takes its time.
template <class T, int wanted>
constexpr int blocks = sizeof(T) == 8 ? 1 : wanted;

/// What a lane has of a head: packs of its first half, and those of the second half with which they turn. `lanes`
/// neighbours, a power of two of at most a warp, have the whole head.
template <class T, int width>
struct Packs {
  static constexpr int rounds = most / width;
  Packed<T, width> first[rounds], second[rounds];
};

template <class Number>
struct Numbers {
  Number first[most], second[most];
};

struct Share {
  int half, lane, lanes;
  /// Which numbers of a half its pack of a round has; those from `half` on are none.
  template <int width>
  __device__ int begin(int round) const {
    return (round * lanes + lane) * width;
  }
};

/// Zeros where there is nothing: `from` null.
template <int width, class T>
__device__ Packs<T, width> load(const T* from, const Share& at) {
  Packs<T, width> out{};
#pragma unroll
  for (int r = 0; r < Packs<T, width>::rounds; ++r) {
    const int k = at.begin<width>(r);
    if (from == nullptr || k >= at.half) continue;
    out.first[r] = *reinterpret_cast<const Packed<T, width>*>(from + k);
    out.second[r] = *reinterpret_cast<const Packed<T, width>*>(from + at.half + k);
  }
  return out;
}

template <int width, class T>
__device__ void store(T* to, const Packs<T, width>& packs, const Share& at) {
#pragma unroll
  for (int r = 0; r < Packs<T, width>::rounds; ++r) {
    const int k = at.begin<width>(r);
    if (k >= at.half) continue;
    *reinterpret_cast<Packed<T, width>*>(to + k) = packs.first[r];
    *reinterpret_cast<Packed<T, width>*>(to + at.half + k) = packs.second[r];
  }
}

template <class T, int width>
__device__ Numbers<typename Float<T>::Number> numbers_of(const Packs<T, width>& packs) {
  Numbers<typename Float<T>::Number> out;
#pragma unroll
  for (int i = 0; i < most; ++i) {
    out.first[i] = Float<T>::load(packs.first[i / width].value[i % width]);
    out.second[i] = Float<T>::load(packs.second[i / width].value[i % width]);
  }
  return out;
}

template <class T, int width>
__device__ Packs<T, width> rounded(const Numbers<typename Float<T>::Number>& numbers) {
  Packs<T, width> out;
#pragma unroll
  for (int i = 0; i < most; ++i) {
    out.first[i / width].value[i % width] = Float<T>::store(numbers.first[i]);
    out.second[i / width].value[i % width] = Float<T>::store(numbers.second[i]);
  }
  return out;
}

/// Cosines (first) and sines (second) of the lane's numbers. All threads of the block call it; a block has a token.
template <class Number, int width>
__device__ Numbers<Number> angles(const HeadsCall& call, const Share& at) {
  __shared__ Number cosines[Frequencies::capacity], sines[Frequencies::capacity];
  const auto position = static_cast<Number>(call.positions[blockIdx.x]);
  for (int i = static_cast<int>(threadIdx.x); i < call.half; i += static_cast<int>(blockDim.x))
    kernels::sine_cosine(position * static_cast<Number>(call.frequencies.value[i]), &sines[i], &cosines[i]);
  __syncthreads();
  Numbers<Number> out{};
#pragma unroll
  for (int i = 0; i < most; ++i) {
    const int k = at.begin<width>(i / width) + i % width;
    if (k >= at.half) continue;
    out.first[i] = cosines[k];
    out.second[i] = sines[k];
  }
  return out;
}

/// Which token a block has.
struct Token {
  std::int64_t row, place;
  __device__ explicit Token(const HeadsCall& call) {
    const auto length = static_cast<unsigned>(call.length);  // to divide 64 bits takes long
    row = blockIdx.x / length;
    place = blockIdx.x % length;
  }
};

/// Where a head of the token begins; null: there are no more.
template <class T>
__device__ const T* head_at(const Heads& list, int head, const Token& token) {
  if (head >= list.heads) return nullptr;
  return static_cast<const T*>(list.data) + list.offset(token.row, token.place, head);
}

/// The weights of the head's norm, kept while they are the same.
template <class T, int width>
struct Weights {
  Packs<T, width> packs;
  int kind = -1;
  __device__ Numbers<typename Float<T>::Number> of(const HeadsCall& call, int head, const Share& at) {
    const int wanted = head < call.queries ? 0 : 1;
    if (wanted != kind) packs = load<width>(static_cast<const T*>(call.norms[wanted]), at);
    kind = wanted;
    return numbers_of(packs);
  }
};

template <class Number>
__device__ Numbers<Number> turned(const Numbers<Number>& x, const Numbers<Number>& angle, Number sign) {
  Numbers<Number> out;
#pragma unroll
  for (int i = 0; i < most; ++i) {
    const Number cosine = angle.first[i], sine = sign * angle.second[i];
    out.first[i] = x.first[i] * cosine - x.second[i] * sine;
    out.second[i] = x.second[i] * cosine + x.first[i] * sine;
  }
  return out;
}

template <class Number>
__device__ Number sum_of_products(const Numbers<Number>& x, const Numbers<Number>& y) {
  Number sum = 0;
#pragma unroll
  for (int i = 0; i < most; ++i) sum += x.first[i] * y.first[i] + x.second[i] * y.second[i];
  return sum;
}

template <class Number>
__device__ Number inverse_root(Number squares, const HeadsCall& call) {
  return rsqrt(squares / static_cast<Number>(2 * call.half) + static_cast<Number>(call.epsilon));
}

/// A block has a token, whose heads go by the groups of `lanes` threads. Loads of the next head are on their way while
/// one is computed, the first ones while the angles are.
template <class T, int width>
__global__ void __launch_bounds__(threads, blocks<T, 6>) forward(const __grid_constant__ HeadsCall call, int lanes) {
  using Number = typename Float<T>::Number;
  const int thread = static_cast<int>(threadIdx.x), groups = static_cast<int>(blockDim.x) / lanes;
  const Share at{call.half, thread % lanes, lanes};
  const Token token(call);
  const int heads = call.queries + call.keys;
  const auto of_head = [&](int head) {
    return load<width>(head < heads ? head_at<T>(call.fused, head, token) : nullptr, at);
  };
  auto next = of_head(thread / lanes);
  const auto angle = angles<Number, width>(call, at);
  Weights<T, width> weights;
  for (int begin = 0; begin < heads; begin += groups) {
    const int head = begin + thread / lanes;
    auto x = numbers_of(next);
    next = of_head(head + groups);
    const Number root = inverse_root(kernels::sum_of_lanes(sum_of_products(x, x), lanes), call);
    if (head >= heads) continue;
    const auto weight = weights.of(call, head, at);
#pragma unroll
    for (int i = 0; i < most; ++i) {
      x.first[i] *= root * weight.first[i];
      x.second[i] *= root * weight.second[i];
    }
    T* const to = static_cast<T*>(call.out) + (std::int64_t{blockIdx.x} * heads + head) * 2 * call.half;
    store<width>(to, rounded<T, width>(turned(x, angle, Number{1})), at);
  }
}

/// With y = w x root, root = 1 / sqrt(mean(x²) + epsilon), and g the gradient of y times w:
/// the gradient of x is root (g - x root² mean(g x)).
template <class T, int width>
__device__ Packs<T, width> gradient_of(const HeadsCall& call, const Numbers<typename Float<T>::Number>& g,
                                       const Numbers<typename Float<T>::Number>& x, int lanes) {
  using Number = typename Float<T>::Number;
  const Number root = inverse_root(kernels::sum_of_lanes(sum_of_products(x, x), lanes), call);
  const Number mean = kernels::sum_of_lanes(sum_of_products(g, x), lanes) / static_cast<Number>(2 * call.half);
  const Number factor = root * root * mean;
  Numbers<Number> out;
#pragma unroll
  for (int i = 0; i < most; ++i) {
    out.first[i] = root * (g.first[i] - x.first[i] * factor);
    out.second[i] = root * (g.second[i] - x.second[i] * factor);
  }
  return rounded<T, width>(out);
}

/// The gradient of any head of the fused product, q, k or v. Null: there are no more.
template <class T>
__device__ const T* gradient_at(const HeadsCall& call, int head, const Token& token) {
  int part = 0;
  while (part < 2 && head >= call.gradients[part].heads) head -= call.gradients[part++].heads;
  return head_at<T>(call.gradients[part], head, token);
}

/// As forward; v's heads are copied.
template <class T, int width>
__global__ void __launch_bounds__(threads, blocks<T, 4>) backward(const __grid_constant__ HeadsCall call, int lanes) {
  using Number = typename Float<T>::Number;
  const int thread = static_cast<int>(threadIdx.x), groups = static_cast<int>(blockDim.x) / lanes;
  const Share at{call.half, thread % lanes, lanes};
  const Token token(call);
  const int normed = call.queries + call.keys, heads = normed + call.rest;
  const auto of_head = [&](int head) {
    return load<width>(head < normed ? head_at<T>(call.fused, head, token) : nullptr, at);
  };
  auto next = of_head(thread / lanes), next_gradient = load<width>(gradient_at<T>(call, thread / lanes, token), at);
  const auto angle = angles<Number, width>(call, at);
  Weights<T, width> weights;
  for (int begin = 0; begin < heads; begin += groups) {
    const int head = begin + thread / lanes;
    const auto x = numbers_of(next);
    auto out = next_gradient;
    next = of_head(head + groups);
    next_gradient = load<width>(gradient_at<T>(call, head + groups, token), at);
    auto g = turned(numbers_of(out), angle, Number{-1});
    const auto weight = weights.of(call, head, at);
#pragma unroll
    for (int i = 0; i < most; ++i) {
      g.first[i] *= weight.first[i];
      g.second[i] *= weight.second[i];
    }
    const auto of_x = gradient_of<T, width>(call, g, x, lanes);
    if (head >= heads) continue;
    if (head < normed) out = of_x;
    store<width>(static_cast<T*>(call.out) + (std::int64_t{blockIdx.x} * heads + head) * 2 * call.half, out, at);
  }
}

struct Shape {
  unsigned threads;
  int lanes;
};

/// Threads of a block such that its groups all have about as many of the heads.
Shape shape_of(int half, int width, int heads) {
  int lanes = 1;
  while (lanes < warp && lanes * width < half) lanes *= 2;
  const int rounds = (heads * lanes + threads - 1) / threads;
  const int wanted = (heads + rounds - 1) / rounds * lanes;
  return {static_cast<unsigned>((wanted + warp - 1) / warp * warp), lanes};
}

template <class T, int width>
void launch(const HeadsCall& call, bool is_forward, CUstream_st* stream) {
  const auto shape = shape_of(call.half, width, call.queries + call.keys + (is_forward ? 0 : call.rest));
  const auto tokens = static_cast<unsigned>(call.batch * call.length);
  if (is_forward) {
    forward<T, width><<<tokens, shape.threads, 0, stream>>>(call, shape.lanes);
  } else {
    backward<T, width><<<tokens, shape.threads, 0, stream>>>(call, shape.lanes);
  }
}

void launch_by_type(const HeadsCall& call, bool is_forward, CUstream_st* stream) {
  kernels::with_type(call.type, [&](auto zero) {
    using T = decltype(zero);
    constexpr int wide = 16 / sizeof(T);
    const auto fits = [](const Heads& list) { return list.fits(list.data, wide, sizeof(T)); };
    bool packs = call.half % wide == 0 && fits(call.fused);
    for (const Heads& list : call.gradients) packs = packs && (list.heads == 0 || fits(list));
    if (packs) {
      launch<T, wide>(call, is_forward, stream);
    } else {
      launch<T, 1>(call, is_forward, stream);
    }
  });
}

}  // namespace

void normed_heads(const HeadsCall& call, CUstream_st* stream) { launch_by_type(call, true, stream); }

void normed_heads_back(const HeadsCall& call, CUstream_st* stream) { launch_by_type(call, false, stream); }

}  // namespace qwen3
