#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/nn/layers.h>
#include <capstan/nn/model.h>
#include <capstan_catch.h>

#include "nn/weights.h"
#include "ops/jacobian.h"

namespace layers_test {

using namespace capstan;
using capstan::testing::bound;
using capstan::testing::difference;
using capstan::testing::jacobian_error;
using capstan::testing::numbers;

namespace {

struct Example {
  at::Tensor w = numbers({3, 5}, 0.2);
  at::Tensor b = numbers({3}, 0.4);
  at::Tensor x = numbers({2, 4, 5}, 0.6);
  nn::Layer root{"root"};
  nn::Linear with_bias{root, "linear", nn::WeightSplit::none, bound("w", w), bound("b", b)};
  nn::Linear without{root, "linear", nn::WeightSplit::none, bound("w", w), nullptr};
  at::Tensor product = at::matmul(x, w.t());
};

// The fused product and bias may round once less than product, then sum: one unit in the last place of numbers
// below 16.
constexpr double rounding = 1e-14;

}  // namespace

TEST_CASE("a linear layer") {
  const Example e;
  CHECK(difference(e.with_bias.forward(e.x), e.product + e.b) < rounding);
  CHECK(difference(e.without.forward(e.x), e.product) < rounding);
}

TEST_CASE("a linear layer's ports: before on x, adapter on x and the product, after it before the bias") {
  Example e;
  const auto adapter = [](const at::Tensor& x, const at::Tensor& y) { return y + x.sum(-1, true); };
  const auto after = [](const at::Tensor& y) { return y * 3; };
  for (auto* linear : {&e.with_bias, &e.without}) {
    const auto bias = linear->bias() ? e.b : at::zeros({3}, at::kDouble);
    SECTION(linear->bias() ? "before, with bias" : "before, without bias") {
      linear->before.fill("tp", [](const at::Tensor& x) { return x * 2; });
      CHECK(difference(linear->forward(e.x), 2 * e.product + bias) < rounding);
      linear->adapter.fill("lora", adapter);
      CHECK(difference(linear->forward(e.x), 2 * e.product + 2 * e.x.sum(-1, true) + bias) < 3 * rounding);
    }
    SECTION(linear->bias() ? "adapter, with bias" : "adapter, without bias") {
      linear->adapter.fill("lora", adapter);
      CHECK(difference(linear->forward(e.x), e.product + e.x.sum(-1, true) + bias) < rounding);
    }
    SECTION(linear->bias() ? "after, with bias" : "after, without bias") {
      linear->after.fill("tp", after);
      CHECK(difference(linear->forward(e.x), 3 * e.product + bias) < 3 * rounding);
    }
    SECTION(linear->bias() ? "adapter and after, with bias" : "adapter and after, without bias") {
      linear->adapter.fill("lora", adapter);
      linear->after.fill("tp", after);
      CHECK(difference(linear->forward(e.x), 3 * (e.product + e.x.sum(-1, true)) + bias) < 3 * rounding);
    }
  }
}

TEST_CASE("an embedding looks rows up, or does what its port says") {
  const auto table = numbers({6, 3}, 0.3);
  nn::Layer root("root");
  nn::Embedding embedding(root, "wte", nn::WeightSplit::vocabulary, bound("table", table));
  const auto ids = at::tensor({5, 0, 5, 2}, at::kLong).view({2, 2});
  const auto rows = embedding.forward(ids);
  CHECK(rows.sizes() == at::IntArrayRef({2, 2, 3}));
  CHECK(at::equal(rows[0][0], table[5]));
  CHECK(at::equal(rows[0][1], table[0]));
  CHECK(at::equal(rows[1][1], table[2]));
  embedding.lookup.fill("tp", [](const at::Tensor& t, const at::Tensor& i) { return at::embedding(t, i) * 2; });
  CHECK(at::equal(embedding.forward(ids), 2 * rows));
}

TEST_CASE("layer norm is the formula") {
  const auto x = numbers({2, 3, 8}, 0.2);
  const auto weight = numbers({8}, 0.5);
  const auto bias = numbers({8}, 0.7);
  const double epsilon = 0.3;  // large enough to be seen
  nn::Layer root("root");
  const nn::LayerNorm norm(root, "norm", bound("weight", weight), bound("bias", bias), epsilon);
  const auto centred = x - x.mean(-1, true);
  const auto expected = centred / (centred.pow(2).mean(-1, true) + epsilon).sqrt() * weight + bias;
  CHECK(difference(norm.forward(x), expected) < rounding);
}

TEST_CASE("dropout acts in training only") {
  nn::Layer root("root");
  const nn::Dropout dropout(root, "site", 0.5);
  const auto x = at::ones({2, 100}, at::kDouble);
  nn::Batch batch;
  batch.sample_ids = at::tensor({1, 2}, at::kLong);
  CHECK(dropout.forward(x, batch).is_same(x));
  batch.training = true;
  const auto y = dropout.forward(x, batch);
  const auto kept = y.eq(2).sum().item<std::int64_t>();
  CHECK(kept + y.eq(0).sum().item<std::int64_t>() == 200);
  CHECK(kept > 50);
  CHECK(kept < 150);
  CHECK(nn::Dropout(root, "site", 0).forward(x, batch).is_same(x));
}

TEST_CASE("a linear layer whose features have several dimensions") {
  const auto w = numbers({2, 3, 4, 5}, 0.2), b = numbers({2, 3, 4}, 0.4), x = numbers({2, 4, 5}, 0.6);
  nn::Layer root("root");
  const nn::Linear linear(root, "linear_qkv", nn::WeightSplit::columns, bound("w", w), bound("b", b));
  CHECK(difference(linear.forward(x), at::matmul(x, w.view({24, 5}).t()) + b.flatten()) < rounding);
}

TEST_CASE("RMS norm divides by the root of the mean square") {
  const auto x = numbers({2, 3, 5}, 0.2), w = numbers({5}, 0.4);
  nn::Layer root("root");
  const auto function = [&](const std::vector<at::Tensor>& in) {
    return nn::RmsNorm(root, "norm", bound("w", in[1]), 1e-3).forward(in[0]);
  };
  const auto expected = x / (x.square().mean(-1, true) + 1e-3).sqrt() * w;
  CHECK(difference(function({x, w}), expected) < rounding);
  CHECK(jacobian_error(function, {x, w}) < 1e-8);
  const auto narrow = nn::RmsNorm(root, "norm", bound("w", w.to(at::kBFloat16)), 1e-3).forward(x.to(at::kBFloat16));
  CHECK(narrow.scalar_type() == at::kBFloat16);
  // bfloat16's 8 bits: input, weight and result are each rounded by at most 2^-9 of numbers below 8.
  CHECK(difference(narrow.to(at::kDouble), expected) < 3 * 8.0 / 512);
}

TEST_CASE("RMS norm's factor may be one plus its weight, which is added in float32") {
  const auto x = numbers({2, 3, 5}, 0.2), w = numbers({5}, 0.4);
  nn::Layer root("root");
  const auto factor = nn::RmsNorm::Factor::one_plus_weight;
  const auto function = [&](const std::vector<at::Tensor>& in) {
    return nn::RmsNorm(root, "norm", bound("w", in[1]), 1e-3, nn::Use::states, factor).forward(in[0]);
  };
  const auto expected = [](const at::Tensor& of, const at::Tensor& weight) {
    return of / (of.square().mean(-1, true) + 1e-3).sqrt() * (1 + weight);
  };
  CHECK(difference(function({x, w}), expected(x, w)) < rounding);
  CHECK(jacobian_error(function, {x, w}) < 1e-8);
  // A weight of 2^-8 is lost where it is added to 1 in bfloat16; here the result alone is rounded, by 2^-9 of numbers
  // below 2.
  const auto ones = at::ones({1, 5}, at::kBFloat16), small = at::full({5}, 3.0 / 256, at::kBFloat16);
  const auto narrow = function({ones, small});
  CHECK(narrow.scalar_type() == at::kBFloat16);
  const auto wide = expected(ones.to(at::kDouble), small.to(at::kDouble));
  CHECK(difference(narrow.to(at::kDouble), wide) < 2.0 / 512);
  const auto sum = nn::RmsNorm(root, "norm", bound("w", w), 1e-3, nn::Use::states, factor).forward_sum(x, x);
  CHECK(difference(sum.normed, expected(2 * x, w)) < rounding);
  CHECK(difference(sum.sum, 2 * x) == 0);
}

TEST_CASE("a gated MLP is down(silu(gate) up)") {
  const auto w = numbers({2 * 7, 5}, 0.2), down = numbers({5, 7}, 0.4), x = numbers({2, 4, 5}, 0.6);
  nn::Layer root("root");
  const nn::Mlp mlp(root, {}, {bound("gate_up", w), nullptr}, {bound("down", down), nullptr});
  const auto gate = at::linear(x, w.narrow(0, 0, 7)), up = at::linear(x, w.narrow(0, 7, 7));
  CHECK(difference(mlp.forward(x), at::linear(gate * gate.sigmoid() * up, down)) < 100 * rounding);
}

}  // namespace layers_test
