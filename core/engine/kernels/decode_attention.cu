#include "kernels/kernel.cuh"

namespace capstan::kernels {
namespace {

constexpr int threads = 256, at_once = 4;      // keys that a thread reads before it adds them
constexpr double log2_e = 1.4426950408889634;  // exponentials are powers of two

/// Exponentials relative to 2^top, and their sum.
template <class Number>
struct Sum {
  Number top, sum;
  /// What numbers relative to 2^top are multiplied with to be relative to 2^other.
  __device__ Number factor(Number other) const { return top == -INFINITY ? Number{0} : exp2(top - other); }
};

/// The keys that a thread block reads.
struct Range {
  std::int64_t position, begin, end;
  __device__ Range(const DecodeCall& call, std::int64_t row, std::int64_t block) : position(call.positions[row]) {
    begin = max(position + 1 - call.window, block * decode_keys);
    end = min(position + 1, (block + 1) * decode_keys);
  }
};

/// A thread block has a row, up to `queries` heads that share a head of keys, and a block of keys. Groups of `lanes`
/// threads, each thread with 16 bytes of a head, take keys in turn and keep sums of their own.
template <class T, int queries>
struct Block {
  using Number = typename Float<T>::Number;
  static constexpr int width = 16 / sizeof(T), widest = warp * width;
  using Pack = Packed<T, width>;
  const DecodeCall& call;
  const int lanes, group = call.q.heads / call.k.heads, tiles = (group + queries - 1) / queries;
  const int kv_head = static_cast<int>(blockIdx.y) / tiles, tile = static_cast<int>(blockIdx.y) % tiles;
  const int first = kv_head * group + tile * queries, count = min(queries, group - tile * queries);
  const int lane = static_cast<int>(threadIdx.x) % lanes, own = static_cast<int>(threadIdx.x) / lanes;
  const int groups = threads / lanes;
  const std::int64_t row = blockIdx.x;
  Number sums[queries][width] = {}, slopes[queries] = {};
  Sum<Number> of[queries];

  /// Queries times the scale, zeros where there is none.
  __device__ void load_queries(Number (*q)[widest]) {
    const auto factor = static_cast<Number>(call.scale * log2_e);
    for (int i = static_cast<int>(threadIdx.x); i < queries * widest; i += threads) {
      const int g = i / widest, c = i % widest;
      const T* const from = static_cast<const T*>(call.q.data) + call.q.offset(row, 0, first + g) + c;
      q[g][c] = g < count && c < call.dim ? factor * Float<T>::load(*from) : Number{0};
    }
#pragma unroll
    for (int g = 0; g < queries; ++g) {
      of[g] = {-INFINITY, 0};
      if (call.slopes != nullptr && g < count)
        slopes[g] = static_cast<const Number*>(call.slopes)[first + g] * static_cast<Number>(log2_e);
    }
    __syncthreads();
  }

  /// Where the cache has this thread's columns of a position.
  __device__ Pack* place(void* cache, std::int64_t t) const {
    const std::int64_t key = (row * call.k.heads + kv_head) * call.capacity + t;
    return reinterpret_cast<Pack*>(static_cast<T*>(cache) + key * call.dim + lane * width);
  }

  /// They, or the row's new token's.
  __device__ Pack read(const Heads& token, void* cache, std::int64_t t, const Range& range) const {
    if (t >= range.end || lane * width >= call.dim) return {};
    const T* const new_one = static_cast<const T*>(token.data) + token.offset(row, 0, kv_head) + lane * width;
    return *(t == range.position ? reinterpret_cast<const Pack*>(new_one) : place(cache, t));
  }

  /// q · key of the group's threads, in all of them.
  __device__ Number product(const Number* q, const Pack& key) const {
    Number sum = 0;
#pragma unroll
    for (int i = 0; i < width; ++i) sum += q[lane * width + i] * Float<T>::load(key.value[i]);
    return sum_of_lanes(sum, lanes);
  }

  __device__ void add(int g, const Number (&scores)[at_once], const Pack (&values)[at_once]) {
    Number top = of[g].top;
#pragma unroll
    for (int u = 0; u < at_once; ++u) top = max(top, scores[u]);
    if (top == -INFINITY) return;
    const Number factor = of[g].factor(top);
    of[g].top = top;
    of[g].sum *= factor;
#pragma unroll
    for (int i = 0; i < width; ++i) sums[g][i] *= factor;
#pragma unroll
    for (int u = 0; u < at_once; ++u) {
      const Number weight = exp2(scores[u] - top);
      of[g].sum += weight;
#pragma unroll
      for (int i = 0; i < width; ++i) sums[g][i] += weight * Float<T>::load(values[u].value[i]);
    }
  }

  __device__ void add_keys(const Range& range, const Number (*q)[widest]) {
    for (auto begin = range.begin + own; begin - own < range.end; begin += at_once * groups) {
      Pack keys[at_once], values[at_once];
#pragma unroll
      for (int u = 0; u < at_once; ++u) {
        keys[u] = read(call.k, call.keys, begin + u * groups, range);
        values[u] = read(call.v, call.values, begin + u * groups, range);
      }
#pragma unroll
      for (int u = 0; u < at_once; ++u) {   // after all that is read, so that reads need not wait
        const auto t = begin + u * groups;  // past the end there is nothing to keep: another block has that position
        if (t != range.position || t >= range.end || tile != 0 || lane * width >= call.dim) continue;
        *place(call.keys, range.position) = keys[u];
        *place(call.values, range.position) = values[u];
      }
#pragma unroll
      for (int g = 0; g < queries; ++g) {
        Number scores[at_once];
#pragma unroll
        for (int u = 0; u < at_once; ++u) {
          const auto t = begin + u * groups;
          const Number score = product(q[g], keys[u]) + slopes[g] * static_cast<Number>(t);
          scores[u] = t < range.end ? score : -INFINITY;
        }
        add(g, scores, values);
      }
    }
  }

  /// Writes the sums of a query's groups: the result, or this block's part of it.
  __device__ void write(int g, const Number* of_groups, const Sum<Number>* sums_of_groups) const {
    const int c = static_cast<int>(threadIdx.x);
    const std::int64_t query = row * call.q.heads + first + g;
    if (c >= call.dim || g >= count) return;
    Number top = -INFINITY, value = 0, sum = 0;
    for (int i = 0; i < groups; ++i) top = max(top, sums_of_groups[i].top);
    for (int i = 0; i < groups; ++i) {
      const Number factor = sums_of_groups[i].factor(top);
      value += factor * of_groups[i * lanes * width + c];
      sum += factor * sums_of_groups[i].sum;
    }
    if (call.partial == nullptr) {
      static_cast<T*>(call.out)[query * call.dim + c] = Float<T>::store(value / sum);
      return;
    }
    Number* const part = static_cast<Number*>(call.partial) + (query * gridDim.z + blockIdx.z) * (call.dim + 2);
    part[c] = value;
    if (c == 0) {
      part[call.dim] = top;
      part[call.dim + 1] = sum;
    }
  }
};

template <class T, int queries>
__global__ __launch_bounds__(threads, queries < 8 ? 2 : 1) void decode(const __grid_constant__ DecodeCall call,
                                                                       int lanes) {
  using Own = Block<T, queries>;
  using Number = typename Own::Number;
  __shared__ Number q[queries][Own::widest], of_groups[threads * Own::width];
  __shared__ Sum<Number> sums_of_groups[threads];
  const Range range(call, blockIdx.x, blockIdx.z);
  if (range.begin >= range.end) return;
  Own block{call, lanes};
  block.load_queries(q);
  block.add_keys(range, q);
#pragma unroll
  for (int g = 0; g < queries; ++g) {
#pragma unroll
    for (int i = 0; i < Own::width; ++i) of_groups[threadIdx.x * Own::width + i] = block.sums[g][i];
    if (block.lane == 0) sums_of_groups[block.own] = block.of[g];
    __syncthreads();
    block.write(g, of_groups, sums_of_groups);
    __syncthreads();
  }
}

/// A thread block a query: the sum of its parts.
template <class T>
__global__ void join_blocks(const __grid_constant__ DecodeCall call) {
  using Number = typename Float<T>::Number;
  const std::int64_t query = blockIdx.x, row = query / call.q.heads, blocks = parts_of(call.capacity, decode_keys);
  const int column = static_cast<int>(threadIdx.x), size = call.dim + 2;
  const Number* const parts = static_cast<const Number*>(call.partial) + query * blocks * size;
  const Range all(call, row, 0);
  const auto first = max(std::int64_t{0}, all.position + 1 - call.window) / decode_keys,
             last = all.position / decode_keys;
  Number top = -INFINITY, value = 0, sum = 0;
  for (auto b = first; b <= last; ++b) top = max(top, parts[b * size + call.dim]);
  for (auto b = first; b <= last; ++b) {
    const Number factor = exp2(parts[b * size + call.dim] - top);
    sum += factor * parts[b * size + call.dim + 1];
    if (column < call.dim) value += factor * parts[b * size + column];
  }
  if (column < call.dim) static_cast<T*>(call.out)[query * call.dim + column] = Float<T>::store(value / sum);
}

template <class T, int queries>
void launch(const DecodeCall& call, CUstream_st* stream) {
  int lanes = 1;
  while (lanes * Block<T, queries>::width < call.dim) lanes *= 2;
  const auto tiles = parts_of(call.q.heads / call.k.heads, queries);
  const dim3 grid(static_cast<unsigned>(call.batch), static_cast<unsigned>(call.k.heads * tiles),
                  static_cast<unsigned>(parts_of(call.capacity, decode_keys)));
  decode<T, queries><<<grid, threads, 0, stream>>>(call, lanes);
  if (call.partial != nullptr)
    join_blocks<T><<<static_cast<unsigned>(call.batch * call.q.heads), threads, 0, stream>>>(call);
}

}  // namespace

void decode_attention(const DecodeCall& call, CUstream_st* stream) {
  const int group = call.q.heads / call.k.heads;
  with_type(call.type, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (sizeof(T) == 2) {
      if (group > 1) return group <= 4 ? launch<T, 4>(call, stream) : launch<T, 8>(call, stream);
    }
    launch<T, 1>(call, stream);  // wide numbers are for proofs, and read keys once a query
  });
}

}  // namespace capstan::kernels
