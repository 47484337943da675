#include <capstan/base/error.h>
#include <capstan/nn/attention.h>

#include <cmath>
#include <limits>
#include <utility>

namespace capstan::nn {
namespace {

// [B, S, T]: query s of row b sees key t when t is not behind the query's own position.
at::Tensor visible(const at::Tensor& positions, std::int64_t keys) {
  const auto index = at::arange(keys, positions.options());
  return index.view({1, 1, keys}) <= positions.unsqueeze(-1);
}

at::Tensor causal_mask(const at::Tensor& q, const at::Tensor& k) {
  return at::ones({q.size(2), k.size(2)}, q.options().dtype(at::kBool)).tril();
}

double scale_of(const at::Tensor& q) { return 1.0 / std::sqrt(static_cast<double>(q.size(-1))); }

// What is added to the scores: a bias [B or 1, heads, 1, keys] or nothing, and where keys are seen.
struct Scores {
  at::Tensor mask;
  at::Tensor bias;
};

at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Scores& add,
                           const Dropout* dropout, const Batch& batch) {
  const auto groups = q.size(1) / k.size(1);
  const auto keys = groups == 1 ? k : k.repeat_interleave(groups, 1);
  const auto values = groups == 1 ? v : v.repeat_interleave(groups, 1);
  auto scores = at::matmul(q * scale_of(q), keys.transpose(-2, -1));
  if (add.bias.defined()) scores = scores + add.bias;
  scores = scores.masked_fill(add.mask.logical_not(), -std::numeric_limits<double>::infinity());
  auto probabilities = at::softmax(scores, -1).to(q.scalar_type());
  if (dropout) probabilities = dropout->on_attention(probabilities, batch);
  return at::matmul(probabilities, values);
}

// Packed rows: attends with every sample in a row of its own, where the plain causal kernels do, and puts the results
// back. Costs a copy each way, where a block-diagonal mask would cost the square of the row and the fused kernels.
template <class Attend>
at::Tensor attend_apart(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Batch& batch,
                        const Attend& attend) {
  const auto& documents = *batch.documents;
  const auto apart = [&](const at::Tensor& heads) { return documents.apart(heads.transpose(1, 2)).transpose(1, 2); };
  const auto y = attend(apart(q), apart(k), apart(v), batch.apart());
  return documents.together(y.transpose(1, 2), q.size(0), q.size(2)).transpose(1, 2);
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Dropout& dropout,
                            const Batch& batch, KVCache* cache, std::size_t layer) {
  if (batch.documents) {
    CAPSTAN_ASSERT(!cache);
    return attend_apart(q, k, v, batch,
                        [&](const auto& queries, const auto& keys, const auto& values, const Batch& own) {
                          return causal_attention(queries, keys, values, dropout, own, nullptr, layer);
                        });
  }
  if (cache) {
    const bool decoding = cache->is_filled();
    const auto& entry = cache->put(layer, k, v, batch.positions);
    if (decoding) {
      const auto mask = visible(batch.positions, entry.keys.size(2)).unsqueeze(1);
      return plain_attention(q, entry.keys, entry.values, {mask, {}}, nullptr, batch);
    }
  }
  if (batch.training && dropout.probability() > 0)
    return plain_attention(q, k, v, {causal_mask(q, k), {}}, &dropout, batch);
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true, std::nullopt, q.size(1) != k.size(1));
}

namespace {

// transformers' build_alibi_tensor, operation by operation, so that float32 gives the same bits: 2^(-8 i / n) for the
// largest power of two n of the heads; the others take every second one of the rule for 2 n.
at::Tensor slopes_in(at::ScalarType type, std::int64_t heads) {
  const auto powers_of = [&](double count, std::int64_t first, std::int64_t end, std::int64_t step) {
    const auto base = at::full({}, std::exp2(-std::exp2(3 - std::log2(count))), at::TensorOptions(type));
    return at::pow(base, at::arange(first, end, step, at::TensorOptions(at::kInt)));
  };
  std::int64_t whole = 1;
  while (2 * whole <= heads) whole *= 2;
  auto slopes = powers_of(static_cast<double>(whole), 1, whole + 1, 1);
  if (whole == heads) return slopes;
  return at::cat({slopes, powers_of(2.0 * static_cast<double>(whole), 1, 1 + 2 * (heads - whole), 2)});
}

}  // namespace

Alibi::Alibi(std::int64_t heads) : single_(slopes_in(at::kFloat, heads)), exact_(slopes_in(at::kDouble, heads)) {}

at::Tensor Alibi::slopes(const at::Tensor& like) const {
  const auto& all = like.scalar_type() == at::kDouble ? exact_ : single_;
  if (!on_device_.defined() || on_device_.device() != like.device() || on_device_.scalar_type() != all.scalar_type())
    on_device_ = all.to(like.device());
  return own_heads ? own_heads(on_device_) : on_device_;
}

at::Tensor Alibi::attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Dropout& dropout,
                            const Batch& batch, KVCache* cache, std::size_t layer) const {
  if (batch.documents) {
    CAPSTAN_ASSERT(!cache);
    return attend_apart(q, k, v, batch,
                        [&](const auto& queries, const auto& keys, const auto& values, const Batch& own) {
                          return attention(queries, keys, values, dropout, own, nullptr, layer);
                        });
  }
  const auto slope = slopes(q).view({1, -1, 1});
  CAPSTAN_ASSERT(slope.size(1) == q.size(1));
  if (cache) {
    const bool decoding = cache->is_filled();
    const auto& entry = cache->put(layer, k, v, batch.positions);
    if (decoding) {
      const auto keys = entry.keys.size(2);
      const auto bias = slope * at::arange(keys, batch.positions.options());
      const auto mask = visible(batch.positions, keys).unsqueeze(1);
      return plain_attention(q, entry.keys, entry.values, {mask, bias.unsqueeze(2)}, nullptr, batch);
    }
  }
  // The last key's bias is about 0, so that the largest numbers of the softmax are small.
  const auto bias = slope * (batch.positions - (q.size(2) - 1)).unsqueeze(1);
  const bool drops = batch.training && dropout.probability() > 0;
  if (drops || q.is_cpu())
    return plain_attention(q, k, v, {causal_mask(q, k), bias.unsqueeze(2)}, drops ? &dropout : nullptr, batch);
  const auto wide = with_bias_columns(q, k, bias, scale_of(q));
  return at::scaled_dot_product_attention(wide.q, wide.k, v, {}, 0.0, /*is_causal=*/true, scale_of(q));
}

WidenedHeads with_bias_columns(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias, double scale) {
  constexpr std::int64_t parts = 3, multiple = 8;
  const auto columns = (q.size(-1) + parts + multiple - 1) / multiple * multiple - q.size(-1);
  auto rest = bias / scale;
  auto of_k = at::zeros({k.size(0), k.size(1), k.size(2), columns}, k.options());
  for (std::int64_t i = 0; i < parts; ++i) {
    const auto part = of_k.select(-1, i);
    part.copy_(rest);
    if (i + 1 < parts) rest = rest - part;
  }
  auto of_q = at::zeros({columns}, q.options());
  of_q.narrow(0, 0, parts).fill_(1);
  return {at::cat({q, of_q.expand({q.size(0), q.size(1), q.size(2), columns})}, -1), at::cat({k, of_k}, -1)};
}

RotaryAttention::RotaryAttention(const Heads& heads, Rotary rotary, Linear qkv, Linear projection, Dropout dropout,
                                 std::size_t layer)
    : heads_(heads),
      rotary_(std::move(rotary)),
      qkv_(std::move(qkv)),
      projection_(std::move(projection)),
      dropout_(dropout),
      layer_(layer) {}

// How many heads of each kind a projection of so many features holds. All records are cut alike, so that a rank's part
// has the whole's ratio, until key heads can't be cut further: then it holds one of them.
RotaryAttention::Heads RotaryAttention::own_heads(std::int64_t features) const {
  const auto all = features / heads_.dim;
  const auto group = heads_.queries / heads_.keys + 2;
  const auto keys = std::max<std::int64_t>(1, all / group);
  return {all - 2 * keys, keys, heads_.dim};
}

at::Tensor RotaryAttention::forward(const at::Tensor& x, const Batch& batch, KVCache* cache) const {
  auto fused = qkv_.forward(x);
  const auto own = own_heads(fused.size(-1));
  fused = fused.view({fused.size(0), fused.size(1), -1, own.dim});
  const auto parts = fused.split_with_sizes({own.queries + own.keys, own.keys}, 2);
  const auto turned = rotary_.forward(parts[0], batch.positions).split_with_sizes({own.queries, own.keys}, 2);
  const auto heads = [](const at::Tensor& t) { return t.transpose(1, 2); };
  const auto y = causal_attention(heads(turned[0]), heads(turned[1]), heads(parts[1]), dropout_, batch, cache, layer_);
  return projection_.forward(y.transpose(1, 2).flatten(2));
}

}  // namespace capstan::nn
