// Routers with sigmoid scores, a correction and groups, against a plain loop over tokens.
#include <ATen/ATen.h>
#include <capstan/nn/experts.h>
#include <capstan_catch.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "nn/weights.h"
#include "ops/jacobian.h"

namespace grouped_router_test {

using namespace capstan;
using capstan::testing::bound;
using capstan::testing::difference;
using capstan::testing::jacobian_error;
using capstan::testing::numbers;

namespace {

constexpr std::int64_t tokens = 13, hidden = 6, count = 8;

nn::Layer& root() {
  static nn::Layer layer("root");
  return layer;
}

nn::RouterKind kind(std::int64_t groups, std::int64_t groups_per_token, std::int64_t per_token) {
  nn::RouterKind made;
  made.experts_per_token = per_token;
  made.sigmoid = true;
  made.groups = groups;
  made.groups_per_token = groups_per_token;
  made.scale = 2.5;
  return made;
}

nn::Router router(const nn::RouterKind& of, const at::Tensor& gate, const at::Tensor& correction) {
  nn::RouterWeights weights{bound("gate", gate)};
  if (correction.defined()) weights.correction = bound("correction", correction);
  return {root(), "router", std::move(weights), of};
}

std::vector<std::int64_t> best(const std::vector<double>& scores, std::int64_t n) {
  std::vector<std::int64_t> order(scores.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](auto a, auto b) {
    return scores[static_cast<std::size_t>(a)] > scores[static_cast<std::size_t>(b)];
  });
  order.resize(static_cast<std::size_t>(n));
  return order;
}

// The experts that one token's corrected scores choose.
std::set<std::int64_t> chosen(std::vector<double> scores, const nn::RouterKind& of) {
  const auto size = count / of.groups;
  std::vector<double> sums;
  for (std::int64_t g = 0; g < of.groups; ++g) {
    std::vector<double> own(scores.begin() + g * size, scores.begin() + (g + 1) * size);
    std::sort(own.rbegin(), own.rend());
    sums.push_back(own[0] + own[1]);
  }
  const auto groups = best(sums, of.groups_per_token);
  for (std::int64_t e = 0; e < count; ++e) {
    const bool is_in = std::find(groups.begin(), groups.end(), e / size) != groups.end();
    if (!is_in) scores[static_cast<std::size_t>(e)] = -std::numeric_limits<double>::infinity();
  }
  const auto list = best(scores, of.experts_per_token);
  return {list.begin(), list.end()};
}

}  // namespace

TEST_CASE("a correction and groups choose the experts, and their sigmoids weigh them") {
  const auto x = numbers({tokens, hidden}, 0.1), gate = numbers({count, hidden}, 0.3),
             correction = numbers({count}, 0.7) * 0.3;
  for (const auto& of : {kind(1, 1, 3), kind(4, 2, 3), kind(2, 1, 2), kind(4, 3, 1)}) {
    const auto routing = router(of, gate, correction).forward(x);
    REQUIRE(routing.experts.sizes() == at::IntArrayRef({tokens, of.experts_per_token}));
    for (std::int64_t t = 0; t < tokens; ++t) {
      const auto scores = gate.mv(x[t]).sigmoid();
      std::vector<double> corrected;
      for (std::int64_t e = 0; e < count; ++e) corrected.push_back((scores[e] + correction[e]).item<double>());
      std::set<std::int64_t> got;
      for (std::int64_t i = 0; i < of.experts_per_token; ++i) got.insert(routing.experts[t][i].item<std::int64_t>());
      CHECK(got == chosen(corrected, of));
      const auto own = scores.index_select(0, routing.experts[t]);
      CHECK(difference(routing.weights[t], own / own.sum() * 2.5) < 1e-14);
    }
  }
}

TEST_CASE("among equal scores the experts are those that torch.topk takes") {
  const auto x = at::zeros({5, hidden}, at::kDouble), gate = numbers({count, hidden}, 0.3);
  const auto scores = at::full({5, count}, 0.5, at::kDouble);
  CHECK(at::equal(router(kind(1, 1, 3), gate, {}).forward(x).experts,
                  std::get<1>(scores.topk(3, -1, /*largest=*/true, /*sorted=*/false))));
}

TEST_CASE("logits and weights are computed in float32 where the model is narrower") {
  const auto x = numbers({tokens, hidden}, 0.1).to(at::kBFloat16),
             gate = numbers({count, hidden}, 0.3).to(at::kBFloat16);
  const auto routing = router(kind(1, 1, 2), gate, {}).forward(x);
  CHECK(routing.weights.scalar_type() == at::kBFloat16);
  const auto scores = at::linear(x.to(at::kFloat), gate.to(at::kFloat)).sigmoid();
  CHECK(at::equal(routing.experts, std::get<1>(scores.topk(2, -1, /*largest=*/true, /*sorted=*/false))));
  const auto own = scores.gather(-1, routing.experts);
  CHECK(at::equal(routing.weights, (own / own.sum(-1, /*keepdim=*/true) * 2.5).to(at::kBFloat16)));
}

TEST_CASE("an adapter of a router in float32 is added in the model's type") {
  const auto x = numbers({tokens, hidden}, 0.1).to(at::kBFloat16),
             gate = numbers({count, hidden}, 0.3).to(at::kBFloat16);
  auto adapted = router(kind(1, 1, 2), gate, {});
  adapted.gate().adapter.fill("lora", [](const at::Tensor& in, const at::Tensor& y) {
    CHECK(in.scalar_type() == at::kBFloat16);
    return y + in.sum(-1, /*keepdim=*/true);
  });
  const auto logits = at::linear(x.to(at::kFloat), gate.to(at::kFloat)) + x.sum(-1, /*keepdim=*/true);
  CHECK(at::equal(adapted.forward(x).experts, std::get<1>(logits.sigmoid().topk(2, -1, true, false))));
}

TEST_CASE("gradients of sigmoid routers are the numeric ones, and the correction has none") {
  const auto x = numbers({tokens, hidden}, 0.1), gate = numbers({count, hidden}, 0.3),
             correction = numbers({count}, 0.7) * 0.3;
  for (const bool sums : {false, true}) {
    auto of = kind(4, 2, 3);
    of.sum_to_one = sums;
    CHECK(jacobian_error([&](const auto& in) { return router(of, in[1], correction).forward(in[0]).weights; },
                         {x, gate}) < 1e-7);
  }
  auto weight = bound("correction", correction);
  const nn::Router made(root(), "router", {bound("gate", gate), nullptr, weight}, kind(1, 1, 2));
  const auto& record = weight->records().front();
  CHECK_FALSE(record.trainable);
  CHECK_FALSE(record.decay);
  CHECK(record.usage == layout::Usage::buffer);
}

}  // namespace grouped_router_test
