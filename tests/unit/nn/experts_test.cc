// Router, experts and the balancing loss against plain loops over tokens.
#include <ATen/ATen.h>
#include <capstan/nn/experts.h>
#include <capstan_catch.h>
#include <torch/csrc/autograd/autograd.h>

#include <cmath>

#include "nn/weights.h"
#include "ops/jacobian.h"

namespace experts_test {

using namespace capstan;
using capstan::testing::bound;
using capstan::testing::difference;
using capstan::testing::jacobian_error;
using capstan::testing::numbers;

namespace {

constexpr std::int64_t tokens = 11, hidden = 6, ff = 5, count = 4;

nn::Layer& root() {
  static nn::Layer layer("root");
  return layer;
}

nn::Router make_router(const at::Tensor& gate, std::int64_t chosen) {
  return {root(), "router", bound("gate", gate), chosen};
}

nn::RouterKind two_of_them() {
  nn::RouterKind kind;
  kind.experts_per_token = 2;
  return kind;
}

struct Example {
  at::Tensor x = numbers({tokens, hidden}, 0.1);
  at::Tensor gate = numbers({count, hidden}, 0.3);
  at::Tensor gate_up = numbers({count, 2, ff, hidden}, 0.5);
  at::Tensor down = numbers({count, hidden, ff}, 0.7);

  nn::Experts experts() const { return {root(), "experts", bound("gate_up", gate_up), bound("down", down)}; }
  at::Tensor expert(std::int64_t e, const at::Tensor& token) const {
    return down[e].mv(at::silu(gate_up[e][0].mv(token)) * gate_up[e][1].mv(token));
  }
  /// Each token's k best experts by logit, weighted by the softmax over those.
  at::Tensor mixed(std::int64_t k) const {
    auto out = at::zeros_like(x);
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto [logits, chosen] = gate.mv(x[t]).topk(k);
      const auto weights = at::softmax(logits, -1);
      for (std::int64_t i = 0; i < k; ++i) out[t] += weights[i] * expert(chosen[i].item<std::int64_t>(), x[t]);
    }
    return out;
  }
};

}  // namespace

TEST_CASE("the router takes the best experts and weighs them by the softmax over those") {
  const Example e;
  for (const std::int64_t k : {1, 2, 4}) {
    const auto routing = make_router(e.gate, k).forward(e.x);
    REQUIRE(routing.experts.sizes() == at::IntArrayRef({tokens, k}));
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto [logits, chosen] = e.gate.mv(e.x[t]).topk(k);
      CHECK(at::equal(routing.experts[t], chosen));
      CHECK(difference(routing.weights[t], at::softmax(logits, -1)) < 1e-14);
    }
  }
  const auto narrow = make_router(e.gate.to(at::kBFloat16), 2).forward(e.x.to(at::kBFloat16));
  CHECK(narrow.weights.scalar_type() == at::kBFloat16);
}

TEST_CASE("a router's scales act on what its gate sees and on each expert's weight, and its norm has no weight") {
  const Example e;
  const auto input_scale = numbers({hidden}, 0.9) + 2, expert_scale = numbers({count}, 1.1) + 2;
  auto kind = two_of_them();
  kind.norm_epsilon = 0.01;
  kind.input_factor = 0.25;
  const auto scaled = [&](const std::vector<at::Tensor>& in) {
    nn::RouterWeights weights{bound("gate", in[1])};
    weights.input_scale = bound("input_scale", in[2]);
    weights.expert_scale = bound("expert_scale", in[3]);
    return nn::Router(root(), "router", std::move(weights), kind).forward(in[0]);
  };
  const auto routing = scaled({e.x, e.gate, input_scale, expert_scale});
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto seen = e.x[t] / (e.x[t].square().mean() + 0.01).sqrt() * input_scale * 0.25;
    const auto [logits, chosen] = e.gate.mv(seen).topk(2);
    CHECK(at::equal(routing.experts[t], chosen));
    CHECK(difference(routing.weights[t], at::softmax(logits, -1) * expert_scale.index_select(0, chosen)) < 1e-13);
  }
  const auto weights = [&](const std::vector<at::Tensor>& in) { return scaled(in).weights; };
  CHECK(jacobian_error(weights, {e.x, e.gate, input_scale, expert_scale}) < 1e-7);
}

TEST_CASE("in a mixture the experts see what a view makes of the states, and the router sees these") {
  const Example e;
  const nn::Mixture mixture(root(), {{bound("gate", e.gate)}, {bound("gate_up", e.gate_up), bound("down", e.down)}},
                            two_of_them());
  nn::RecomputeContext kept;
  const auto got = mixture.forward(e.x.unsqueeze(0), kept, [](const at::Tensor& x) { return x.sin(); });
  const auto expected = e.experts().forward(e.x.sin(), make_router(e.gate, 2).forward(e.x));
  CHECK(at::equal(got.squeeze(0), expected));
}

TEST_CASE("experts compute every token by each expert that it was routed to") {
  const Example e;
  for (const std::int64_t k : {1, 2, 3}) {
    const auto got = e.experts().forward(e.x, make_router(e.gate, k).forward(e.x));
    // Sums of at most 6 terms of order 10 in another order.
    CHECK(difference(got, e.mixed(k)) < 1e-12);
  }
}

TEST_CASE("an expert without tokens changes nothing") {
  Example e;
  e.gate[2].fill_(0);
  e.x = e.x.abs();
  e.gate[1] = e.gate[1].abs() + 1;
  e.gate[3] = e.gate[3].abs() + 1;
  const auto routing = make_router(e.gate, 2).forward(e.x);
  REQUIRE(routing.experts.eq(2).sum().item<std::int64_t>() == 0);
  CHECK(difference(e.experts().forward(e.x, routing), e.mixed(2)) < 1e-12);
}

TEST_CASE("gradients of experts and router are the numeric ones") {
  const Example e;
  const auto function = [](const std::vector<at::Tensor>& in) {
    const nn::Experts experts(root(), "experts", bound("gate_up", in[2]), bound("down", in[3]));
    return experts.forward(in[0], make_router(in[1], 2).forward(in[0]));
  };
  CHECK(jacobian_error(function, {e.x, e.gate, e.gate_up, e.down}) < 1e-7);
}

namespace {

struct BiasedExample : Example {
  at::Tensor up_bias = numbers({count, 2, ff}, 0.9);
  at::Tensor down_bias = numbers({count, hidden}, 1.1);
  at::Tensor gate_bias = numbers({count}, 1.3);
  at::Tensor expert(std::int64_t e, const at::Tensor& token) const {
    const auto a = (gate_up[e][0].mv(token) + up_bias[e][0]).clamp_max(7);
    const auto b = (gate_up[e][1].mv(token) + up_bias[e][1]).clamp(-7, 7);
    return down[e].mv((b + 1) * a * (1.702 * a).sigmoid()) + down_bias[e];
  }
};

nn::ExpertsKind clamped() {
  nn::ExpertsKind kind;
  kind.between = [](const at::Tensor& gate_up, const ops::GroupBiases& biases) {
    const auto parts = ops::add_group_biases(gate_up, biases).chunk(2, -1);
    const auto a = parts[0].clamp_max(7);
    return (parts[1].clamp(-7, 7) + 1) * a * (1.702 * a).sigmoid();
  };
  return kind;
}

// In the order of BiasedExample's members.
nn::Mixture::Weights weights_of(const std::vector<at::Tensor>& in) {
  return {{bound("gate", in[1]), bound("gate_bias", in[4])},
          {bound("gate_up", in[2]), bound("down", in[3]), bound("up_bias", in[5]), bound("down_bias", in[6])}};
}

at::Tensor mixture_of(const std::vector<at::Tensor>& in) {
  const nn::Mixture mixture(root(), weights_of(in), two_of_them(), clamped());
  nn::RecomputeContext kept;
  return mixture.forward(in[0].view({1, tokens, hidden}), kept).flatten(0, 1);
}

}  // namespace

TEST_CASE("experts with biases and what a model gives between their products, in a mixture and alone") {
  const BiasedExample e;
  auto expected = at::zeros_like(e.x);
  for (std::int64_t t = 0; t < tokens; ++t) {
    const auto [logits, chosen] = (e.gate.mv(e.x[t]) + e.gate_bias).topk(2);
    const auto weights = at::softmax(logits, -1);
    for (std::int64_t i = 0; i < 2; ++i) expected[t] += weights[i] * e.expert(chosen[i].item<std::int64_t>(), e.x[t]);
  }
  const std::vector<at::Tensor> in{e.x, e.gate, e.gate_up, e.down, e.gate_bias, e.up_bias, e.down_bias};
  CHECK(difference(mixture_of(in), expected) < 1e-12);
  const nn::Router router(root(), "router", {bound("gate", e.gate), bound("gate_bias", e.gate_bias)}, two_of_them());
  const nn::Experts alone(root(), "experts",
                          {bound("gate_up", e.gate_up), bound("down", e.down), bound("up_bias", e.up_bias),
                           bound("down_bias", e.down_bias)},
                          clamped());
  CHECK(difference(alone.forward(e.x, router.forward(e.x)), expected) < 1e-12);
}

TEST_CASE("gradients of experts' and routers' biases are the numeric ones") {
  const BiasedExample e;
  CHECK(jacobian_error(mixture_of, {e.x, e.gate, e.gate_up, e.down, e.gate_bias, e.up_bias, e.down_bias}) < 1e-7);
}

TEST_CASE("the ports: an exchange gets sorted rows and counts, before and after act where ff is split") {
  const Example e;
  const auto routing = make_router(e.gate, 2).forward(e.x);
  auto experts = e.experts();
  bool called = false;
  experts.exchange.fill("expert_parallel",
                        [&](const nn::Experts::Body& body, const nn::Experts::Rows& make_rows, const at::Tensor& counts,
                            const at::Tensor& ids, nn::RecomputeContext* kept) {
                          called = true;
                          CHECK(kept == nullptr);
                          CHECK_FALSE(ids.defined());
                          const auto rows = make_rows();
                          CHECK(counts.size(0) == count);
                          CHECK(counts.sum().item<std::int64_t>() == 2 * tokens);
                          CHECK(rows.sizes() == at::IntArrayRef({2 * tokens, hidden}));
                          std::int64_t row = 0;
                          for (std::int64_t expert = 0; expert < count; ++expert) {
                            for (std::int64_t t = 0; t < tokens; ++t) {
                              if (!routing.experts[t].eq(expert).any().item<bool>()) continue;
                              CHECK(at::equal(rows[row++], e.x[t]));
                            }
                          }
                          return body(rows, counts, ids);
                        });
  CHECK(difference(experts.forward(e.x, routing), e.mixed(2)) < 1e-12);
  CHECK(called);
  // Half of ff on each of two ranks: the parts add up.
  auto sum = at::zeros_like(e.x);
  for (const auto& [begin, length] : {std::pair<std::int64_t, std::int64_t>{0, 3}, {3, 2}}) {
    const nn::Experts part(root(), "experts", bound("gate_up", e.gate_up.narrow(2, begin, length).contiguous()),
                           bound("down", e.down.narrow(2, begin, length).contiguous()));
    sum += part.forward(e.x, routing);
  }
  CHECK(difference(sum, e.mixed(2)) < 1e-12);
  auto slotted = e.experts();
  slotted.before.fill("tensor_parallel", [](const at::Tensor& x) { return x * 1; });
  slotted.before_weights.fill("tensor_parallel", [](const at::Tensor& w) { return w * 2; });
  slotted.after.fill("tensor_parallel", [](const at::Tensor& y) { return y + 1; });
  CHECK(difference(slotted.forward(e.x, routing), 2 * e.mixed(2) + 1) < 1e-12);
}

TEST_CASE("the balancing loss counts choices and probabilities of real tokens over all layers") {
  const Example e;
  const auto other = numbers({tokens, hidden}, 2.3);
  const auto router = make_router(e.gate, 2);
  nn::Batch batch;
  batch.real = at::ones({1, tokens}, at::kBool);
  batch.real.narrow(1, 8, 3).fill_(false);
  auto load = router.no_load(e.x);
  CHECK(nn::balancing_loss(load).item<double>() == 0);
  router.add_load(load, e.x, batch);
  router.add_load(load, other, batch);
  std::vector<double> choices(count), mean(count);
  for (const auto& x : {e.x, other}) {
    for (std::int64_t t = 0; t < 8; ++t) {
      const auto probability = at::softmax(e.gate.mv(x[t]), -1);
      const auto chosen = std::get<1>(probability.topk(2));
      for (std::int64_t i = 0; i < 2; ++i)
        choices[static_cast<std::size_t>(chosen[i].item<std::int64_t>())] += 1.0 / 16;
      for (std::size_t n = 0; n < count; ++n) mean[n] += probability[static_cast<std::int64_t>(n)].item<double>() / 16;
    }
  }
  double expected = 0;
  for (std::size_t n = 0; n < count; ++n) expected += count * choices[n] * mean[n];
  CHECK(nn::balancing_loss(load).item<double>() == Approx(expected).epsilon(1e-13));
  batch.real = at::Tensor();
  const auto all = [&](const std::vector<at::Tensor>& in) {
    const auto one = make_router(in[1], 2);
    auto sums = one.no_load(in[0]);
    one.add_load(sums, in[0], batch);
    return nn::balancing_loss(sums);
  };
  CHECK(jacobian_error(all, {e.x, e.gate}) < 1e-7);
}

TEST_CASE("a second run goes where the first one went, whatever the probabilities have become") {
  const Example e;
  const auto router = make_router(e.gate, 2);
  nn::RecomputeContext kept;
  const auto first = router.forward(e.x, &kept);
  const auto other = router.forward(e.x.flip(0), &kept);
  CHECK(at::equal(other.experts, first.experts));
  const auto probability = at::softmax(at::linear(e.x.flip(0), e.gate), -1).gather(1, first.experts);
  CHECK(difference(other.weights, probability / probability.sum(-1, true)) < 1e-14);
  CHECK_FALSE(at::equal(router.forward(e.x.flip(0)).experts, first.experts));
}

TEST_CASE("tokens of each expert: what was chosen, without padding") {
  const Example e;
  const auto router = make_router(e.gate, 2);
  nn::RecomputeContext kept;
  const auto chosen = router.forward(e.x, &kept).experts;
  nn::Batch batch;
  const auto count = [&](std::int64_t expert, std::int64_t rows) {
    return chosen.narrow(0, 0, rows).eq(expert).sum().item<double>();
  };
  const auto all = router.tokens(batch, kept);
  batch.real = at::ones({1, tokens}, at::kBool);
  batch.real.narrow(1, 8, 3).fill_(false);
  const auto real = router.tokens(batch, kept);
  for (std::int64_t expert = 0; expert < 4; ++expert) {
    CHECK(all[expert].item<double>() == count(expert, tokens));
    CHECK(real[expert].item<double>() == count(expert, 8));
  }
}

TEST_CASE("the shares of ranks that see parts of a micro-batch add up to the balancing loss of all of it") {
  const Example e;
  const auto loss_of = [&](const at::Tensor& x, const at::Tensor& gate, const nn::LoadBalance& balance) {
    const auto router = make_router(gate, 2);
    auto load = router.no_load(x);
    router.add_load(load, x, {});
    return balance.forward(load);
  };
  const auto whole_gate = e.gate.clone().requires_grad_(true);
  const auto whole = loss_of(e.x, whole_gate, nn::LoadBalance(root()));
  whole.backward();
  const auto parts = e.x.split_with_sizes({4, 7});
  at::Tensor all = at::zeros({count + 1}, at::kDouble);
  for (const auto& part : parts) {
    nn::LoadBalance look(root());
    look.counts.fill("test", [&](const at::Tensor& counts) {
      all += counts;
      return counts;
    });
    loss_of(part, e.gate, look);
  }
  const auto gate = e.gate.clone().requires_grad_(true);
  at::Tensor sum = at::zeros({}, at::kDouble);
  for (const auto& part : parts) {
    nn::LoadBalance balance(root());
    balance.counts.fill("test", [&](const at::Tensor& counts) {
      CHECK_FALSE(counts.requires_grad());
      return all;
    });
    sum = sum + loss_of(part, gate, balance);
  }
  sum.backward();
  CHECK(sum.item<double>() == Approx(whole.item<double>()).epsilon(1e-14));
  CHECK(difference(gate.grad(), whole_gate.grad()) < 1e-14);
}

TEST_CASE("an even load has a balancing loss of k") {
  const auto router = make_router(at::zeros({4, 2}, at::kDouble), 2);
  std::vector<at::Tensor> load{at::full({4}, 3.0, at::kDouble), at::full({4}, 1.5, at::kDouble),
                               at::full({}, 6.0, at::kDouble)};
  CHECK(nn::balancing_loss(load).item<double>() == 2);
}

}  // namespace experts_test
