// The gated delta rule's kernels, and those of its convolution and gate, against the same without kernels in float64.
#include "models/qwen3_5/gated_delta_rule.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include "gpu/compare.h"
#include "gpu/delta_rounded.h"
#include "models/qwen3_5/causal_convolution.h"
#include "models/qwen3_5/delta_by_kernels.h"
#include "models/qwen3_5/gate.h"

namespace {

struct Size {
  std::int64_t rows, length, keys, values, dim;
};

// One and a half units in the last place of bfloat16, each 2^-7 of a number at most: float32 and float64 may round a
// result to either side, and before it what is rounded between two products. An H200 was off by 0.0097 at most.
constexpr double last_places = 3.0 / 256;

// Numbers that have nothing to do with one another: the inverse of a chunk of keys that are alike multiplies roundings.
at::Tensor noise(at::IntArrayRef shape, double phase) {
  const auto at = at::arange(1, c10::multiply_integers(shape) + 1, at::kDouble);
  return ((at * 12.9898 + phase).sin() * 43758.5453).frac().mul(1.5).view(shape);
}

// q, k and v are parts of one tensor, as the layer has them. Decays from -0.003 to -2.
Inputs inputs_of(const Size& s) {
  const auto qkv = noise({s.rows, s.length, (2 * s.keys + s.values) * s.dim}, 0.1).to(at::kBFloat16);
  const auto rate = at::linspace(-6, 0.7, s.values, at::kDouble).exp();
  return {qkv, (rate * noise({s.rows, s.length, s.values}, 0.3).sigmoid()).neg().to(at::kFloat),
          noise({s.rows, s.length, s.values}, 0.5).mul(2).sigmoid().to(at::kBFloat16)};
}

qwen3_5::DeltaInput parts(const Inputs& in, const Size& s, const at::Tensor& begins) {
  const auto keys = s.keys * s.dim;
  const auto each = in[0].split_with_sizes({keys, keys, s.values * s.dim}, -1);
  const auto heads = [&](const at::Tensor& x) { return x.unflatten(-1, {-1, s.dim}); };
  return {heads(each[0]), heads(each[1]), heads(each[2]), in[1], in[2], begins};
}

Function rule(const Size& s, const at::Tensor& begins, const qwen3_5::DeltaCut& cut = {}) {
  return [=](const Inputs& in) {
    return qwen3_5::gated_delta_rule(parts(in, s, begins.defined() ? begins.to(in[0].device()) : begins), cut).out;
  };
}

Inputs there(const Inputs& in) {
  Inputs out;
  for (const auto& x : in) out.push_back(on_gpu(x));
  return out;
}

Inputs in_double(const Inputs& in) {
  Inputs out;
  for (const auto& x : in) out.push_back(x.to(at::kDouble));
  return out;
}

delta_rounded::Made rounded_rule_of(const Inputs& in, const Size& s, const at::Tensor& begins) {
  const auto at = parts(in_double(in), s, begins);
  const auto weights = weights_of(at.v.sizes()).to(at::kDouble);
  return delta_rounded::Rule({at.q, at.k, at.v, at.decay, at.beta, begins, weights}).made();
}

// What all_of(rule(s, begins), in) is with the kernels' roundings.
Inputs rounded_rule(const Inputs& in, const Size& s, const at::Tensor& begins) {
  const auto made = rounded_rule_of(in, s, begins);
  return {made.out, at::cat({made.of_q.flatten(2), made.of_k.flatten(2), made.of_v.flatten(2)}, -1), made.of_decay,
          made.of_beta};
}

bool has_kernels(const Inputs& in, const Size& s) { return qwen3_5::has_delta_kernels(parts(in, s, {}), {}); }

at::Tensor marks(const Size& s) {
  const auto at = at::arange(s.rows * s.length, at::kLong).view({s.rows, s.length});
  const auto column = at::arange(s.length, at::kLong);
  return at.remainder(37).eq(5).logical_or(column.eq(0)).logical_or(column.eq(64));
}

// Gradients of q, k and v are looked at each by itself.
void check_equal(const Inputs& got, const Inputs& wanted, const Size& s) {
  const auto keys = s.keys * s.dim;
  CHECK(distance(got[0], wanted[0]) < last_places);
  const auto mine = got[1].split_with_sizes({keys, keys, s.values * s.dim}, -1);
  const auto theirs = wanted[1].split_with_sizes({keys, keys, s.values * s.dim}, -1);
  for (std::size_t i = 0; i < mine.size(); ++i) CHECK(distance(mine[i], theirs[i]) < last_places);
  for (std::size_t i = 2; i < got.size(); ++i) CHECK(distance(got[i], wanted[i]) < last_places);
}

const Size sizes[] = {{1, 1, 1, 1, 128},   {2, 63, 1, 2, 128}, {1, 64, 2, 2, 64},  {2, 130, 2, 4, 128},
                      {1, 193, 1, 3, 128}, {2, 200, 2, 2, 64}, {1, 700, 1, 2, 128}};

}  // namespace

TEST_CASE("GPU: the gated delta rule's kernels equal float64 with their roundings, with their gradients", "[delta]") {
  for (const auto& s : sizes) {
    INFO(s.rows << " x " << s.length << ", " << s.values << " heads of " << s.dim);
    const auto in = inputs_of(s);
    REQUIRE(has_kernels(there(in), s));
    for (const auto& begins : {at::Tensor(), marks(s)}) {
      const auto wanted = rounded_rule(in, s, begins);
      check_equal(all_of(rule(s, begins), there(in)), wanted, s);
      // Segments hand on the state, and its gradient.
      check_equal(all_of(rule(s, begins, {64, 128}), there(in)), wanted, s);
    }
  }
}

TEST_CASE("GPU: the gated delta rule's last state is float64's with the kernels' roundings", "[delta]") {
  const Size s{2, 130, 2, 4, 128};
  const auto in = inputs_of(s);
  const auto got = qwen3_5::gated_delta_rule(parts(there(in), s, {}));
  CHECK(got.state.scalar_type() == at::kFloat);
  CHECK(distance(got.state, rounded_rule_of(in, s, {}).last) < last_places);
}

TEST_CASE("GPU: the gated delta rule has the same bits each time", "[delta]") {
  const Size s{2, 700, 2, 4, 128};
  const auto in = there(inputs_of(s));
  const auto first = all_of(rule(s, marks(s)), in), again = all_of(rule(s, marks(s)), in);
  for (std::size_t i = 0; i < first.size(); ++i) CHECK(at::equal(first[i], again[i]));
}

TEST_CASE("GPU: the gated delta rule takes beta in float32 and heads that lie anywhere", "[delta]") {
  const Size s{1, 130, 1, 2, 64};
  auto in = inputs_of(s);
  const auto wanted = rounded_rule(in, s, {});
  in[2] = in[2].to(at::kFloat);
  const auto shifted = [&](const Inputs& x) {
    const auto wide = at::cat({at::zeros_like(x[0].narrow(2, 0, 1)), x[0]}, 2);  // heads begin at odd addresses
    return rule(s, {})({wide.narrow(2, 1, x[0].size(2)), x[1], x[2]});
  };
  check_equal(all_of(shifted, there(in)), wanted, s);
}

TEST_CASE("GPU: decays that forget everything leave finite numbers in the gated delta rule's kernels", "[delta]") {
  const Size s{1, 130, 1, 2, 128};
  auto in = inputs_of(s);
  in[1] = at::full_like(in[1], -200);
  for (const auto& x : all_of(rule(s, {}), there(in))) CHECK(x.isfinite().all().item<bool>());
}

TEST_CASE("GPU: the convolution's kernel equals CPU's float64 up to rounding, weights with it", "[delta]") {
  // One rounding of a result; sums of weights' gradients are in float32.
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    for (const std::int64_t length : {1, 2, 31, 100}) {
      const auto x = noise({2, length, 24}, 0.1).to(type), w = noise({24, 1, 4}, 0.2).to(type);
      const auto places = at::arange(length, at::kLong).remainder(7).expand({2, length});
      for (const auto& positions : {at::Tensor(), places}) {
        const auto function = [&](const Inputs& in) {
          const auto at = positions.defined() ? positions.to(in[0].device()) : positions;
          return qwen3_5::causal_convolution(in[0].narrow(2, 8, 16), in[1].narrow(0, 8, 16), at);
        };
        const auto got = all_of(function, there({x, w})), wanted = all_of(function, in_double({x, w}));
        for (std::size_t i = 0; i < got.size(); ++i) CHECK(distance(got[i], wanted[i]) < 1.0 / 256);
      }
    }
  }
}

TEST_CASE("GPU: the convolution of weights that are not trained has the same gradient of x", "[delta]") {
  const auto x = on_gpu(noise({2, 100, 16}, 0.1).to(at::kBFloat16)),
             w = on_gpu(noise({16, 1, 4}, 0.2).to(at::kBFloat16));
  const auto frozen = all_of([&](const Inputs& in) { return qwen3_5::causal_convolution(in[0], w); }, {x});
  const auto trained = all_of([](const Inputs& in) { return qwen3_5::causal_convolution(in[0], in[1]); }, {x, w});
  CHECK(at::equal(frozen[0], trained[0]));
  CHECK(at::equal(frozen[1], trained[1]));
}

TEST_CASE("GPU: the gate's kernel equals CPU's float64 up to rounding, wherever z lies", "[delta]") {
  for (const auto type : {at::kBFloat16, at::kHalf}) {
    const auto x = noise({2, 5, 3, 16}, 0.1).to(type);
    for (const std::int64_t begin : {0, 1, 8}) {
      const auto z = noise({2, 5, 72}, 0.4).to(type);
      const auto function = [&](const Inputs& in) {
        return qwen3_5::gated_by(in[0], in[1].narrow(2, begin, 48).unflatten(-1, {3, 16}));
      };
      const auto got = all_of(function, there({x, z})), wanted = all_of(function, in_double({x, z}));
      for (std::size_t i = 0; i < got.size(); ++i) CHECK(distance(got[i], wanted[i]) < 1.0 / 256);
    }
  }
}
