#include "units.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

namespace bloom {

using capstan::cat;
using capstan::layout::Init;

EmbeddingUnit::EmbeddingUnit(const BloomOptions& o, const nn::WeightPtr& tokens)
    : Unit("embedding"),
      tokens_(*this, "word_embeddings", nn::Split::vocabulary, tokens),
      norm_(*this, "norm", add_record("word_embeddings_layernorm.weight", {o.hidden_size}, Init::ones(), false),
            add_record("word_embeddings_layernorm.bias", {o.hidden_size}, Init::zeros(), false), o.layer_norm_epsilon) {
}

nn::Hidden EmbeddingUnit::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) {
  hidden.states = norm_.forward(tokens_.forward(batch.tokens));
  return hidden;
}

nn::WeightPtr Block::norm_record(const BloomOptions& o, const std::string& name, Init init) {
  return add_record(cat(file_, ".", name), {o.hidden_size}, init, false);
}

nn::LinearWeights Block::weights(const BloomOptions& o, const std::string& record,
                                 const std::vector<std::int64_t>& features, std::int64_t in) {
  auto shape = features;
  shape.push_back(in);
  auto weight = add_record(cat(file_, ".", record, ".weight"), shape, Init::normal(o.init_std), true);
  return {std::move(weight), add_record(cat(file_, ".", record, ".bias"), features, Init::zeros(), false)};
}

namespace {

nn::Attention::Kind attention_kind(const BloomOptions& o, std::int64_t index) {
  nn::Attention::Kind kind;
  kind.heads = {o.num_heads, o.num_heads, o.hidden_size / o.num_heads};
  kind.order = nn::Attention::Order::by_head;
  kind.alibi = true;
  kind.dropout = o.attention_dropout;
  kind.layer = static_cast<std::size_t>(index);
  return kind;
}

}  // namespace

Block::Block(const BloomOptions& o, std::int64_t index)
    : Unit(cat("blocks.", index)),
      file_(cat("h.", index)),
      residual_after_norm_(o.residual_after_norm),
      norm1_(*this, "norm1", norm_record(o, "input_layernorm.weight", Init::ones()),
             norm_record(o, "input_layernorm.bias", Init::zeros()), o.layer_norm_epsilon),
      norm2_(*this, "norm2", norm_record(o, "post_attention_layernorm.weight", Init::ones()),
             norm_record(o, "post_attention_layernorm.bias", Init::zeros()), o.layer_norm_epsilon),
      attention_(
          *this, attention_kind(o, index),
          {weights(o, "self_attention.query_key_value", {o.num_heads, 3, o.hidden_size / o.num_heads}, o.hidden_size),
           weights(o, "self_attention.dense", {o.hidden_size}, o.hidden_size), nullptr, nullptr}),
      mlp_(*this, {nn::Activation::gelu_tanh, false}, weights(o, "mlp.dense_h_to_4h", {o.ff()}, o.hidden_size),
           weights(o, "mlp.dense_4h_to_h", {o.hidden_size}, o.ff())),
      dropout1_(*this, name() + ".dropout1", o.dropout),
      dropout2_(*this, name() + ".dropout2", o.dropout) {}

nn::Hidden Block::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) {
  const auto normed = norm1_.forward(hidden.states);
  // By value: a recomputed region runs again in backward.
  const auto attention = attention_region_(
      normed, [this, batch, cache](const at::Tensor& in) { return attention_.forward(in, batch, cache); });
  const auto x = (residual_after_norm_ ? normed : hidden.states) + dropout1_.forward(attention, batch);
  const auto again = norm2_.forward(x);
  const auto mlp = mlp_region_(again, [this](const at::Tensor& in) { return mlp_.forward(in); });
  hidden.states = (residual_after_norm_ ? again : x) + dropout2_.forward(mlp, batch);
  return hidden;
}

Head::Head(const BloomOptions& o, const nn::WeightPtr& matrix)
    : Unit("head"),
      norm_(*this, "norm", add_record("ln_f.weight", {o.hidden_size}, Init::ones(), false),
            add_record("ln_f.bias", {o.hidden_size}, Init::zeros(), false), o.layer_norm_epsilon),
      head_(*this, "lm_head", matrix) {}

nn::Hidden Head::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) {
  hidden.states = head_.forward(norm_.forward(hidden.states), batch);
  return hidden;
}

}  // namespace bloom
