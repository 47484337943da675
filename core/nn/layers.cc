#include <capstan/nn/layers.h>
#include <capstan/ops/philox.h>
#include <capstan/ops/random.h>

#include <utility>

namespace capstan::nn {

Linear::Linear(std::string name, Split may_split, WeightPtr weight, WeightPtr bias)
    : name_(std::move(name)), may_split_(may_split), weight_(std::move(weight)), bias_(std::move(bias)) {}

at::Tensor Linear::forward(const at::Tensor& x) const {
  const at::Tensor input = before ? before(x) : x;
  if (!adapter && !after)
    return at::linear(input, weight_->value(), bias_ ? std::optional(bias_->value()) : std::nullopt);
  at::Tensor y = at::linear(input, weight_->value());
  if (adapter) y = adapter(input, y);
  if (after) y = after(y);
  return bias_ ? y + bias_->value() : y;
}

Embedding::Embedding(std::string name, Split may_split, WeightPtr weight)
    : name_(std::move(name)), may_split_(may_split), weight_(std::move(weight)) {}

at::Tensor Embedding::forward(const at::Tensor& ids) const {
  return lookup ? lookup(weight_->value(), ids) : at::embedding(weight_->value(), ids);
}

LayerNorm::LayerNorm(WeightPtr weight, WeightPtr bias, double epsilon)
    : weight_(std::move(weight)), bias_(std::move(bias)), epsilon_(epsilon) {}

at::Tensor LayerNorm::forward(const at::Tensor& x) const {
  return at::layer_norm(x, {x.size(-1)}, weight_->value(), bias_->value(), epsilon_);
}

Dropout::Dropout(const std::string& site, double probability)
    : site_(ops::stable_hash(site)), probability_(probability) {}

at::Tensor Dropout::forward(const at::Tensor& x, const Batch& batch) const {
  if (!batch.training || probability_ == 0) return x;
  ops::DropoutKey key;
  key.seed = batch.seed;
  key.step = batch.step;
  key.site = site_;
  key.sample_ids = batch.sample_ids;
  return ops::dropout(x, probability_, key);
}

namespace {

// [B, S, T]: query s of row b sees key t when t is not behind the query's own position.
at::Tensor visible(const at::Tensor& positions, std::int64_t keys) {
  const auto index = at::arange(keys, positions.options());
  return index.view({1, 1, keys}) <= positions.unsqueeze(-1);
}

at::Tensor plain_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const at::Tensor& mask,
                           const Dropout* dropout, const Batch& batch) {
  const auto groups = q.size(1) / k.size(1);
  const auto keys = groups == 1 ? k : k.repeat_interleave(groups, 1);
  const auto values = groups == 1 ? v : v.repeat_interleave(groups, 1);
  const double scale = 1.0 / std::sqrt(static_cast<double>(q.size(-1)));
  auto scores = at::matmul(q * scale, keys.transpose(-2, -1));
  scores = scores.masked_fill(mask.logical_not(), -std::numeric_limits<double>::infinity());
  auto probabilities = at::softmax(scores, -1);
  if (dropout) probabilities = dropout->forward(probabilities, batch);
  return at::matmul(probabilities, values);
}

}  // namespace

at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Dropout& dropout,
                            const Batch& batch, KVCache* cache, std::size_t layer) {
  if (cache) {
    const bool decoding = cache->is_filled();
    const auto& entry = cache->put(layer, k, v, batch.positions);
    if (decoding) {
      const auto mask = visible(batch.positions, entry.keys.size(2)).unsqueeze(1);
      return plain_attention(q, entry.keys, entry.values, mask, nullptr, batch);
    }
  }
  if (batch.training && dropout.probability() > 0) {
    const auto mask = at::ones({q.size(2), k.size(2)}, q.options().dtype(at::kBool)).tril();
    return plain_attention(q, k, v, mask, &dropout, batch);
  }
  return at::scaled_dot_product_attention(q, k, v, {}, 0.0, /*is_causal=*/true, std::nullopt, q.size(1) != k.size(1));
}

}  // namespace capstan::nn
