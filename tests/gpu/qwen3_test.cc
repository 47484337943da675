// Norms of q and k with their positions in one pass: CUDA against CPU.
#include "models/qwen3/heads.h"
#include "models/qwen3/operators.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <capstan_catch.h>

#include <chrono>
#include <cmath>
#include <cstdio>

#include "gpu/compare.h"

using namespace capstan;
using capstan::testing::numbers;

namespace {

constexpr double epsilon = 1e-6;

struct Norms {
  at::Tensor query, key;
};

std::vector<double> frequencies_of(std::int64_t dim) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < dim / 2; ++i)
    out.push_back(std::pow(1e4, -2.0 * static_cast<double>(i) / static_cast<double>(dim)));
  return out;
}

at::Tensor some_positions() { return at::tensor({0, 1, 2, 3, 4, 5, 0, 9, 2000, 131071}, at::kLong).view({2, 5}); }

ops::RotaryHeads at_once(const at::Tensor& fused, const nn::Attention::Heads& heads, const Norms& norms) {
  const auto here = fused.options();
  return qwen3::normed_heads(fused, heads, {norms.query.to(here), norms.key.to(here), epsilon},
                             some_positions().to(fused.device()), frequencies_of(heads.dim));
}

ops::RotaryHeads in_steps(const at::Tensor& fused, const nn::Attention::Heads& heads, const Norms& norms) {
  const auto parts = fused.split_with_sizes({heads.queries, heads.keys, heads.keys}, 2);
  const auto placed = [&](const at::Tensor& part, const at::Tensor& norm) {
    return ops::rotary(at::rms_norm(part, {heads.dim}, norm.to(fused.options()), epsilon),
                       some_positions().to(fused.device()), frequencies_of(heads.dim));
  };
  return {placed(parts[0], norms.query), placed(parts[1], norms.key), parts[2]};
}

// Gradients of the parts are views of what has the dimensions in that order.
at::Tensor joined(const ops::RotaryHeads& parts, std::int64_t swapped) {
  const auto each = [&](const at::Tensor& part) { return part.transpose(1, swapped); };
  return at::cat({each(parts.q), each(parts.k), each(parts.v)}, swapped == 2 ? 1 : 2);
}

// Both sides round numbers of their sums' type once. Their sums have other orders, and sines are good to 2 units in the
// last place: 16 bits may be off by one unit, of at most 2^-7 and 2^-10 of a number.
const double bounds[] = {1e-12, 1e-5, 1.0 / 128, 1.0 / 1024};

}  // namespace

TEST_CASE("GPU: norms of q and k with their positions equal CPU's, in packs of 16 bytes and one by one", "[qwen3]") {
  for (const auto& heads :
       {nn::Attention::Heads{5, 1, 6}, {4, 2, 64}, {7, 3, 80}, {3, 1, 96}, {32, 4, 128}, {2, 2, 256}, {3, 1, 512}}) {
    for (const std::int64_t offset : {0, 1}) {
      const auto all = heads.queries + 2 * heads.keys, features = all * heads.dim;
      for (int i = 0; i < 4; ++i) {
        for (const std::int64_t swapped : {1, 2, 3}) {
          INFO(heads.dim << " " << offset << " " << float_types[i] << " " << swapped);
          const auto x = numbers({2, 5, features + 8}, 0.1).to(float_types[i]);
          const Norms norms{numbers({heads.dim + 8}, 0.4).to(float_types[i]),
                            numbers({heads.dim + 8}, 0.9).to(float_types[i])};
          const Function function = [&](const Inputs& in) {
            const auto here = in[0].options();
            // Vectors that begin where the product does: at whole 16 bytes or not.
            const Norms own{norms.query.to(here).narrow(0, offset, heads.dim),
                            norms.key.to(here).narrow(0, offset, heads.dim)};
            const auto fused = in[0].narrow(2, offset, features).view({2, 5, all, heads.dim});
            return joined(at_once(fused, heads, own), swapped);
          };
          const auto expected = all_of(function, {x}), got = all_of(function, {on_gpu(x)});
          for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(got[k], expected[k]) < bounds[i]);
        }
      }
    }
  }
}

TEST_CASE("GPU: norms of q and k with their positions are what norm and rotary make", "[qwen3]") {
  const nn::Attention::Heads heads{32, 4, 128};
  const Norms norms{numbers({128}, 0.4), numbers({128}, 0.9)};
  const auto x = numbers({2, 5, 40, 128}, 0.1);
  // Each step rounds, forward and backward.
  const double more[] = {1, 1, 3, 3};
  for (int i = 0; i < 4; ++i) {
    INFO(float_types[i]);
    const auto here = on_gpu(x.to(float_types[i]));
    const auto got = all_of([&](const Inputs& in) { return joined(at_once(in[0], heads, norms), 2); }, {here});
    const auto expected = all_of([&](const Inputs& in) { return joined(in_steps(in[0], heads, norms), 2); }, {here});
    for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(got[k], expected[k]) < more[i] * bounds[i]);
  }
}

TEST_CASE("the rate of norms with their positions, of Qwen3-30B-A3B at 2048 x 2", "[.bench]") {
  const auto options = at::TensorOptions(at::kBFloat16).device(at::kCUDA);
  const auto fused = at::randn({2, 2048, 40, 128}, options), norm = at::ones({128}, options);
  const auto positions = at::arange(2048, options.dtype(at::kLong)).expand({2, 2048}).contiguous();
  const auto frequencies = frequencies_of(128);
  static const auto forward =
      c10::Dispatcher::singleton().findSchemaOrThrow("capstan::qwen3_heads", "").typed<qwen3::Forward>();
  static const auto backward =
      c10::Dispatcher::singleton().findSchemaOrThrow("capstan::qwen3_heads_back", "").typed<qwen3::Backward>();
  const std::vector<at::Tensor> parts{at::randn({2, 2048, 32, 128}, options), at::randn({2, 2048, 4, 128}, options),
                                      at::randn({2, 2048, 4, 128}, options)};
  const auto measure = [&](const char* what, double bytes, const std::function<at::Tensor()>& call) {
    constexpr int times = 1000;
    const auto repeat = [&] {
      at::Tensor last;
      for (int i = 0; i < times; ++i) last = call();
      (void)last.flatten()[0].item<float>();  // waits
    };
    repeat();  // until the clocks are up
    const auto start = std::chrono::steady_clock::now();
    repeat();
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    const double each = took.count() / times;
    std::printf("%s: %.1f us, %.2f TB/s\n", what, each * 1e6, 1e-12 * bytes / each);
    CHECK(each > 0);
  };
  const double head = 2.0 * 2048 * 128 * 2;
  measure("forward", 2 * 36 * head, [&] {
    return forward.call(fused, {norm, norm}, positions, {32, 4}, epsilon, frequencies);
  });
  measure("backward", (2 * 36 + 4 + 40) * head, [&] {
    return backward.call(parts, fused, {norm, norm}, positions, epsilon, frequencies);
  });
}
