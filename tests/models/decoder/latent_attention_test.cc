// Attention through latents against its formula, token by token, in float64.
#include <ATen/ATen.h>
#include <capstan_catch.h>

#include <cmath>

#include "models/libraries/decoder/latent_attention.h"
#include "nn/weights.h"
#include "ops/jacobian.h"

namespace latent_attention_test {

using namespace capstan;
using capstan::testing::bound;
using capstan::testing::difference;
using capstan::testing::jacobian_error;
using capstan::testing::numbers;

namespace {

constexpr std::int64_t rows = 2, length = 5, hidden = 7, heads = 2, still = 3, turned = 4, values = 5, queries = 6,
                       keys = 4;
constexpr std::int64_t dim = still + turned;
constexpr double factor = 1.3;

nn::Layer& root() {
  static nn::Layer layer("root");
  return layer;
}

struct Example {
  bool has_latent = true;
  std::vector<at::Tensor> inputs() const {
    std::vector<at::Tensor> in{numbers({rows, length, hidden}, 0.1),
                               numbers({heads * dim, has_latent ? queries : hidden}, 0.2) * 0.3,
                               numbers({keys + turned, hidden}, 0.3) * 0.3,
                               numbers({keys}, 0.4),
                               numbers({heads * (still + values), keys}, 0.5) * 0.3,
                               numbers({hidden, heads * values}, 0.6) * 0.3};
    if (has_latent) in.insert(in.end(), {numbers({queries, hidden}, 0.7) * 0.3, numbers({queries}, 0.8)});
    return in;
  }
};

nn::Batch batch_of(std::int64_t count, std::int64_t columns) {
  nn::Batch batch;
  batch.positions = at::arange(columns, at::kLong).expand({count, columns});
  batch.tokens = batch.positions;
  return batch;
}

at::Tensor layer(const std::vector<at::Tensor>& in) {
  decoder::LatentAttention::Kind kind{{}, nn::Rotary(turned, 100, {}, {.turned = 0, .interleaved = true})};
  kind.spec.heads = {heads, heads, dim, values};
  kind.turned = turned;
  kind.turned_factor = factor;
  decoder::LatentAttention::Weights weights;
  weights.query_up.weight = bound("q_b", in[1]);
  weights.keys_down.weight = bound("kv_a", in[2]);
  weights.keys_norm = bound("kv_norm", in[3]);
  weights.keys_up.weight = bound("kv_b", in[4]);
  weights.projection.weight = bound("o", in[5]);
  if (in.size() > 6) {
    weights.query_down.weight = bound("q_a", in[6]);
    weights.query_norm = bound("q_norm", in[7]);
  }
  const decoder::LatentAttention attention(root(), kind, weights);
  return attention.forward(in[0], batch_of(in[0].size(0), in[0].size(1)), nullptr);
}

at::Tensor normed(const at::Tensor& x, const at::Tensor& weight) {
  return x / (x.square().mean() + 1e-6).sqrt() * weight;
}

// Neighbours turn together by the angle of their position.
at::Tensor turn(const at::Tensor& x, std::int64_t position) {
  auto out = x.clone();
  for (std::int64_t i = 0; i < turned / 2; ++i) {
    const auto angle = static_cast<double>(position) * std::pow(100.0, -2.0 * static_cast<double>(i) / turned);
    const auto a = x[2 * i].item<double>(), b = x[2 * i + 1].item<double>();
    out[2 * i] = factor * (a * std::cos(angle) - b * std::sin(angle));
    out[2 * i + 1] = factor * (b * std::cos(angle) + a * std::sin(angle));
  }
  return out;
}

at::Tensor expected(const std::vector<at::Tensor>& in) {
  auto out = at::zeros_like(in[0]);
  for (std::int64_t b = 0; b < in[0].size(0); ++b) {
    std::vector<at::Tensor> q, k, v;
    for (std::int64_t t = 0; t < in[0].size(1); ++t) {
      const auto x = in[0][b][t];
      const auto query = in[1].mv(in.size() > 6 ? normed(in[6].mv(x), in[7]) : x).view({heads, dim});
      const auto down = in[2].mv(x);
      const auto both = in[4].mv(normed(down.narrow(0, 0, keys), in[3])).view({heads, still + values});
      const auto shared = turn(down.narrow(0, keys, turned), t);
      std::vector<at::Tensor> own_q, own_k;
      for (std::int64_t h = 0; h < heads; ++h) {
        own_q.push_back(at::cat({query[h].narrow(0, 0, still), turn(query[h].narrow(0, still, turned), t)}));
        own_k.push_back(at::cat({both[h].narrow(0, 0, still), shared}));
      }
      q.push_back(at::stack(own_q));
      k.push_back(at::stack(own_k));
      v.push_back(both.narrow(1, still, values));
      std::vector<at::Tensor> mixed;
      for (std::int64_t h = 0; h < heads; ++h) {
        std::vector<at::Tensor> scores, seen;
        for (std::int64_t s = 0; s <= t; ++s) {
          scores.push_back(q.back()[h].dot(k[static_cast<std::size_t>(s)][h]) / std::sqrt(static_cast<double>(dim)));
          seen.push_back(v[static_cast<std::size_t>(s)][h]);
        }
        mixed.push_back(at::softmax(at::stack(scores), 0).matmul(at::stack(seen)));
      }
      out[b][t] = in[5].mv(at::cat(mixed));
    }
  }
  return out;
}

}  // namespace

TEST_CASE("attention through latents is its formula, with queries from a latent or from the states") {
  for (const bool has_latent : {true, false}) {
    const auto in = Example{has_latent}.inputs();
    // Sums of some dozens of numbers of order 1 in another order.
    CHECK(difference(layer(in), expected(in)) < 1e-13);
  }
}

TEST_CASE("its gradients are the numeric ones") {
  for (const bool has_latent : {true, false}) CHECK(jacobian_error(layer, Example{has_latent}.inputs()) < 1e-7);
}

TEST_CASE("what strategies see of it: its heads, and one place where all heads read the same keys") {
  const auto in = Example{}.inputs();
  decoder::LatentAttention::Kind kind{{}, nn::Rotary(turned, 100, {})};
  kind.spec.heads = {heads, heads, dim, values};
  kind.turned = turned;
  decoder::LatentAttention attention(root(), kind,
                                     {{bound("q_a", in[6]), nullptr},
                                      bound("q_norm", in[7]),
                                      {bound("q_b", in[1]), nullptr},
                                      {bound("kv_a", in[2]), nullptr},
                                      bound("kv_norm", in[3]),
                                      {bound("kv_b", in[4]), nullptr},
                                      {bound("o", in[5]), nullptr}});
  int asked = 0;
  attention.shared_keys.fill("tensor_parallel", [&](const at::Tensor& part) {
    ++asked;
    CHECK(part.sizes() == at::IntArrayRef({rows, length, turned}));
    return part * 1;
  });
  CHECK(attention.forward(in[0], batch_of(rows, length), nullptr).sizes() == in[0].sizes());
  CHECK(asked == 1);
  CHECK(attention.shares_keys());
  const auto call = attention.planned(in[0], batch_of(1, length), length);
  CHECK(call.q.size(-1) == dim);
  CHECK(call.v.size(-1) == values);
  CHECK_FALSE(call.fused.defined());
}

}  // namespace latent_attention_test
