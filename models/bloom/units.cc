#include "units.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

namespace bloom {

using capstan::cat;
using capstan::layout::Init;

EmbeddingUnit::EmbeddingUnit(const BloomOptions& o, const nn::WeightPtr& tokens)
    : Unit("embedding"),
      tokens_("word_embeddings", nn::Split::vocabulary, add(tokens)),
      norm_(add_record("word_embeddings_layernorm.weight", {o.hidden_size}, Init::ones(), false),
            add_record("word_embeddings_layernorm.bias", {o.hidden_size}, Init::zeros(), false), o.layer_norm_epsilon) {
  expose(tokens_);
}

nn::Hidden EmbeddingUnit::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) {
  hidden.states = norm_.forward(tokens_.forward(batch.tokens));
  return hidden;
}

nn::LayerNorm Block::make_norm(const BloomOptions& o, const std::string& name) {
  auto weight = add_record(cat(file_, ".", name, ".weight"), {o.hidden_size}, Init::ones(), false);
  return {std::move(weight), add_record(cat(file_, ".", name, ".bias"), {o.hidden_size}, Init::zeros(), false),
          o.layer_norm_epsilon};
}

nn::Linear Block::make_linear(const BloomOptions& o, const std::string& name, const std::string& record,
                              nn::Split split, const std::vector<std::int64_t>& features, std::int64_t in) {
  auto shape = features;
  shape.push_back(in);
  auto weight = add_record(cat(file_, ".", record, ".weight"), shape, Init::normal(o.init_std), true);
  return {name, split, std::move(weight), add_record(cat(file_, ".", record, ".bias"), features, Init::zeros(), false)};
}

Block::Block(const BloomOptions& o, std::int64_t index)
    : Unit(cat("blocks.", index)),
      file_(cat("h.", index)),
      index_(static_cast<std::size_t>(index)),
      head_dim_(o.hidden_size / o.num_heads),
      residual_after_norm_(o.residual_after_norm),
      norm1_(make_norm(o, "input_layernorm")),
      norm2_(make_norm(o, "post_attention_layernorm")),
      qkv_(make_linear(o, "linear_qkv", "self_attention.query_key_value", nn::Split::columns,
                       {o.num_heads, 3, head_dim_}, o.hidden_size)),
      projection_(
          make_linear(o, "linear_proj", "self_attention.dense", nn::Split::rows, {o.hidden_size}, o.hidden_size)),
      up_(make_linear(o, "linear_fc1", "mlp.dense_h_to_4h", nn::Split::columns, {o.ff()}, o.hidden_size)),
      down_(make_linear(o, "linear_fc2", "mlp.dense_4h_to_h", nn::Split::rows, {o.hidden_size}, o.ff())),
      alibi_(o.num_heads),
      attention_dropout_(name() + ".attention.dropout", o.attention_dropout),
      dropout1_(name() + ".dropout1", o.dropout),
      dropout2_(name() + ".dropout2", o.dropout) {
  for (auto* linear : {&qkv_, &projection_, &up_, &down_}) expose(*linear);
  for (auto* dropout : {&attention_dropout_, &dropout1_, &dropout2_}) expose(*dropout);
  expose(alibi_);
  expose(attention_);
  expose(mlp_);
}

at::Tensor Block::attend(const at::Tensor& x, const nn::Batch& batch, nn::KVCache* cache) const {
  const auto fused = qkv_.forward(x);
  const auto qkv = fused.view({fused.size(0), fused.size(1), -1, 3, head_dim_}).transpose(1, 2).unbind(3);
  const auto y = alibi_.attention(qkv[0], qkv[1], qkv[2], attention_dropout_, batch, cache, index_);
  return projection_.forward(y.transpose(1, 2).flatten(2));
}

at::Tensor Block::feed_forward(const at::Tensor& x) const { return down_.forward(at::gelu(up_.forward(x), "tanh")); }

nn::Hidden Block::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) {
  const auto normed = norm1_.forward(hidden.states);
  // By value: a recomputed region runs again in backward.
  const auto attention =
      attention_(normed, [this, batch, cache](const at::Tensor& in) { return attend(in, batch, cache); });
  const auto x = (residual_after_norm_ ? normed : hidden.states) + dropout1_.forward(attention, batch);
  const auto again = norm2_.forward(x);
  const auto mlp = mlp_(again, [this](const at::Tensor& in) { return feed_forward(in); });
  hidden.states = (residual_after_norm_ ? again : x) + dropout2_.forward(mlp, batch);
  return hidden;
}

Head::Head(const BloomOptions& o, const nn::WeightPtr& matrix)
    : Unit("head"),
      norm_(add_record("ln_f.weight", {o.hidden_size}, Init::ones(), false),
            add_record("ln_f.bias", {o.hidden_size}, Init::zeros(), false), o.layer_norm_epsilon),
      head_("lm_head", add(matrix)) {
  expose(head_);
}

nn::Hidden Head::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) {
  hidden.states = head_.forward(norm_.forward(hidden.states), batch);
  return hidden;
}

}  // namespace bloom
