// What models compute with: CUDA against CPU.
#include <ATen/ATen.h>
#include <capstan/nn/attention.h>
#include <capstan/nn/experts.h>
#include <capstan/nn/head.h>
#include <capstan/ops/grouped.h>
#include <capstan/ops/rotary.h>
#include <capstan/ops/swiglu.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "nn/weights.h"
#include "support/alibi.h"

namespace models_test {

using namespace capstan;
using capstan::testing::bound;
using capstan::testing::numbers;

namespace {

const at::ScalarType float_types[] = {at::kDouble, at::kFloat, at::kBFloat16, at::kHalf};

at::Tensor on_gpu(const at::Tensor& x) { return x.to(at::kCUDA); }

/// max|a - b| / max|b|, in float64.
double distance(const at::Tensor& a, const at::Tensor& b) {
  REQUIRE(a.sizes() == b.sizes());
  const auto expected = b.cpu().to(at::kDouble);
  return ((a.cpu().to(at::kDouble) - expected).abs().max() / expected.abs().max()).item<double>();
}

using Function = std::function<at::Tensor(const std::vector<at::Tensor>&)>;

/// The result and the gradients of a fixed weighting of it.
std::vector<at::Tensor> run(const Function& function, const std::vector<at::Tensor>& inputs) {
  std::vector<at::Tensor> leaves;
  for (const auto& input : inputs) leaves.push_back(input.detach().clone().set_requires_grad(true));
  const auto out = function(leaves);
  const auto weights = numbers(out.sizes().vec(), 0.3).to(at::kBFloat16).to(out.options());  // the same in all dtypes
  auto results = torch::autograd::grad({out}, leaves, {weights});
  results.insert(results.begin(), out.detach());
  return results;
}

}  // namespace

// Both sides round float32 numbers once; CUDA's sine, cosine and exponential are good to 2 units in the last place.
TEST_CASE("GPU: rotary equals CPU's, forward and backward, contiguous or a part of a fused projection") {
  const auto positions = at::tensor({0, 1, 2, 3, 4, 5, 0, 9, 2000, 131071}, at::kLong).view({2, 5});
  std::vector<double> frequencies;
  for (int i = 0; i < 32; ++i) frequencies.push_back(std::pow(1e4, -i / 32.0));
  // A float32 angle of 131071 is good to 2^-8 on both sides alike; the sine of it is a large argument's reduction.
  const double bounds[] = {1e-12, 2e-6, 1.0 / 256, 1.0 / 2048};
  for (int i = 0; i < 4; ++i) {
    const auto fused = numbers({2, 5, 7 * 64}, 0.1).to(float_types[i]);
    const auto function = [&](const at::Tensor& where) {
      return [&, where](const std::vector<at::Tensor>& x) {
        return ops::rotary(x[0].narrow(-1, 64, 5 * 64).view({2, 5, 5, 64}), where, frequencies);
      };
    };
    const auto expected = run(function(positions), {fused}), got = run(function(on_gpu(positions)), {on_gpu(fused)});
    for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(got[k], expected[k]) < bounds[i]);
  }
}

TEST_CASE("GPU: swiglu equals CPU's, in packs of 16 bytes and one by one") {
  const double bounds[] = {1e-14, 1e-6, 1.0 / 256, 1.0 / 2048};
  for (int i = 0; i < 4; ++i) {
    for (const std::int64_t columns : {1024, 37}) {
      const auto x = numbers({70000 / columns, 3, 2 * columns}, 0.1).mul(3).to(float_types[i]);
      const auto function = [](const std::vector<at::Tensor>& in) { return ops::swiglu(in[0]); };
      const auto expected = run(function, {x}), got = run(function, {on_gpu(x)});
      for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(got[k], expected[k]) < bounds[i]);
    }
  }
}

// bfloat16 takes the grouped kernel where rows are of whole 16 bytes, all else a loop. Sums of up to 96 products of
// order 1, in float32 (float64); 16-bit results are rounded to 8 and 11 bits.
TEST_CASE("GPU: the head's loss and gradients of only the rows with labels equal CPU's float64 of all",
          "[labels][products]") {
  const double bounds[] = {1e-13, 1e-5, 1.0 / 128, 1.0 / 1024};
  const bool deterministic = GENERATE(false, true);
  ::setenv("CUBLAS_WORKSPACE_CONFIG", ":4096:8", 1);  // what `capstan run` does under run.deterministic
  at::globalContext().setDeterministicAlgorithms(deterministic, false);
  const auto at_labels = [](std::int64_t count) {
    auto labels = at::full({2, 300}, -100, at::kLong);
    labels.narrow(1, 300 - count, count).copy_(at::arange(2 * count).view({2, count}).mul(37).remainder(1000));
    return labels;
  };
  for (const std::int64_t count : {0, 7}) {
    nn::Batch all, some;
    all.labels = at_labels(count);
    some.labels = on_gpu(all.labels);
    some.loss_rows = on_gpu(all.labels.flatten().ne(-100).logical_or(at::arange(600).lt(242)).nonzero().squeeze(1));
    const auto function = [](const nn::Batch& batch) {
      return [&batch](const std::vector<at::Tensor>& in) {
        nn::Layer root("root");
        return nn::VocabularyHead(root, "head", bound("head.weight", in[1])).forward(in[0], batch);
      };
    };
    for (int i = 0; i < 4; ++i) {
      const auto x = numbers({2, 300, 96}, 0.1).to(float_types[i]),
                 matrix = numbers({1000, 96}, 0.4).to(float_types[i]);
      const auto expected = run(function(all), {x.to(at::kDouble), matrix.to(at::kDouble)});
      const auto got = run(function(some), {on_gpu(x), on_gpu(matrix)});
      for (std::size_t k = 0; k < got.size(); ++k) {
        if (count > 0) CHECK(distance(got[k], expected[k]) < bounds[i]);
        if (count == 0) CHECK(got[k].abs().max().item<double>() == 0);
      }
    }
  }
  at::globalContext().setDeterministicAlgorithms(false, false);
}

TEST_CASE("GPU: grouped_linear equals CPU's float64, with empty groups and any number of rows", "[products]") {
  const double bounds[] = {1e-13, 1e-5, 1.0 / 128, 1.0 / 1024};
  const std::vector<std::vector<int>> cases{
      {17, 17, 60, 75}, {16, 16, 60, 75}, {0, 33, 75, 75}, {75, 75, 75, 75}, {1, 2, 3, 75}};
  for (const auto& counts : cases) {
    const auto ends = at::tensor(counts, at::kInt);
    for (int i = 0; i < 4; ++i) {
      const std::int64_t in = counts[0] == 17 ? 60 : 64;  // 60: not for the grouped kernel
      const auto x = numbers({75, in}, 0.1).to(float_types[i]), weight = numbers({4, 96, in}, 0.5).to(float_types[i]);
      const auto function = [](const at::Tensor& where) {
        return [where](const std::vector<at::Tensor>& xs) { return ops::grouped_linear(xs[0], xs[1], where); };
      };
      const auto expected = run(function(ends), {x.to(at::kDouble), weight.to(at::kDouble)});
      const auto got = run(function(on_gpu(ends)), {on_gpu(x), on_gpu(weight)});
      for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(got[k], expected[k]) < bounds[i]);
    }
  }
}

TEST_CASE("GPU: with ends in host memory grouped_linear multiplies group by group, or as one product, to the same",
          "[products]") {
  constexpr std::int64_t columns = 64, rows = 96, groups = 4;
  for (const std::int64_t count : {75, 2600}) {
    const std::vector<std::int64_t> counts{0, count / 3, count, count};
    const auto ends = at::tensor(counts, at::kLong).to(at::kInt);
    const auto x = on_gpu(numbers({count, columns}, 0.1).to(at::kBFloat16));
    const auto weight = on_gpu(numbers({groups, rows, columns}, 0.5).to(at::kBFloat16));
    const auto function = [](const at::Tensor& where) {
      return [where](const std::vector<at::Tensor>& xs) { return ops::grouped_linear(xs[0], xs[1], where); };
    };
    const auto expected = run(function(on_gpu(ends)), {x, weight}), got = run(function(ends), {x, weight});
    for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(got[k], expected[k]) < 1.0 / 128);
  }
}

TEST_CASE("GPU: rows are sorted by group as on the CPU") {
  for (const std::int64_t rows : {0, 1, 31, 1024, 8191, 8193, 70001}) {
    for (const std::int64_t groups : {1, 2, 8, 128}) {
      // The last group may stay empty.
      const auto group =
          at::arange(rows, at::kLong).mul(7919).remainder(10007).remainder(std::max<std::int64_t>(1, groups - 1));
      const auto expected = ops::group_rows(group, groups), got = ops::group_rows(on_gpu(group), groups);
      CHECK(at::equal(ops::group_counts(on_gpu(group), groups).cpu(), expected.counts));
      CHECK(at::equal(got.order.cpu(), expected.order));
      CHECK(at::equal(got.place.cpu(), expected.place));
      CHECK(at::equal(got.counts.cpu(), expected.counts));
    }
  }
}

TEST_CASE("GPU: routed experts in bfloat16 equal CPU's float64 up to rounding", "[products]") {
  constexpr std::int64_t tokens = 203, hidden = 64, ff = 96, count = 8;
  const auto function = [](const std::vector<at::Tensor>& in) {
    nn::Layer root("root");
    const nn::Router router(root, "router", bound("gate", in[1]), 2);
    const nn::Experts experts(root, "experts", bound("gate_up", in[2]), bound("down", in[3]));
    return experts.forward(in[0], router.forward(in[0]));
  };
  // Far apart logits, so that bfloat16 chooses the same experts.
  const auto chosen = at::arange(tokens * 2, at::kLong).mul(5).floor_divide(3).remainder(count).view({tokens, 2});
  auto x = numbers({tokens, hidden}, 0.1).mul(0.1);
  x.narrow(1, 0, count).zero_();
  x.scatter_(1, chosen.narrow(1, 0, 1), 3.0);
  x.scatter_(1, (chosen.narrow(1, 0, 1) + 1).remainder(count), 2.5);
  const auto gate = at::eye(count, hidden, at::TensorOptions(at::kDouble));
  std::vector<at::Tensor> inputs{x, gate, numbers({count, 2, ff, hidden}, 0.5).mul(0.2),
                                 numbers({count, hidden, ff}, 0.7).mul(0.2)};
  std::vector<at::Tensor> wide, narrow;
  for (const auto& input : inputs) {
    narrow.push_back(on_gpu(input.to(at::kBFloat16)));
    wide.push_back(input.to(at::kBFloat16).to(at::kDouble));
  }
  const auto expected = run(function, wide), got = run(function, narrow);
  // Some roundings to 8 bits one after the other, the router's among them; seen on an H200: 0.031.
  for (std::size_t k = 0; k < got.size(); ++k) CHECK(distance(got[k], expected[k]) < 12.0 / 256);
}

// The fused kernel's own error in bfloat16 is that of plain causal attention; a bias in one bfloat16 column would be
// off by whole units at this length.
TEST_CASE("GPU: ALiBi through the fused kernel equals CPU's float64 up to rounding", "[products]") {
  for (const std::int64_t dim : {64, 96, 128}) {
    constexpr std::int64_t heads = 4, length = 1024;
    nn::Layer root("root");
    const nn::Alibi alibi(root, heads);
    const nn::Dropout none(root, "attention", 0);
    const auto function = [&](at::Device device) {
      nn::Batch batch;
      batch.positions = at::arange(length, at::TensorOptions(at::kLong).device(device)).expand({2, length});
      batch.sample_ids = at::zeros({2}, batch.positions.options());
      return [&, batch](const std::vector<at::Tensor>& in) { return testing::alibi_attention(alibi, in, none, batch); };
    };
    std::vector<at::Tensor> wide, narrow, single;
    for (const double phase : {0.1, 0.5, 0.9}) {
      const auto input = numbers({2, heads, length, dim}, phase).to(at::kBFloat16);
      narrow.push_back(on_gpu(input));
      single.push_back(on_gpu(input.to(at::kFloat)));
      wide.push_back(input.to(at::kDouble));
    }
    const auto expected = run(function(at::kCPU), wide);
    const auto got = run(function(at::kCUDA), narrow), in_float = run(function(at::kCUDA), single);
    // Gradients of q and k are small differences of large numbers: plain attention's own error says how small.
    const Function plain = [](const std::vector<at::Tensor>& in) {
      return at::scaled_dot_product_attention(in[0], in[1], in[2], {}, 0.0, /*is_causal=*/true);
    };
    const auto plain_expected = run(plain, wide), plain_got = run(plain, narrow);
    for (std::size_t k = 0; k < got.size(); ++k) {
      CHECK(distance(got[k], expected[k]) < 2.0 / 256 + 2 * distance(plain_got[k], plain_expected[k]));
      CHECK(distance(in_float[k], expected[k]) < 1e-4);
    }
  }
}

}  // namespace models_test
