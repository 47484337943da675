#include "units.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

namespace llama {
namespace {

using capstan::cat;
using capstan::layout::Init;

nn::Rotary rotary(const LlamaOptions& o) {
  nn::RotaryScaling scaling;
  if (o.rope_type == "linear") scaling.kind = nn::RotaryScaling::Kind::linear;
  if (o.rope_type == "llama3") scaling.kind = nn::RotaryScaling::Kind::llama3;
  scaling.factor = o.rope_factor.value_or(1);
  scaling.low_frequency_factor = o.rope_low_frequency_factor;
  scaling.high_frequency_factor = o.rope_high_frequency_factor;
  scaling.original_length = o.rope_original_length;
  return {o.dim(), o.rope_theta, scaling};
}

}  // namespace

EmbeddingUnit::EmbeddingUnit(const nn::WeightPtr& tokens)
    : Unit("embedding"), tokens_(*this, "embed_tokens", nn::Split::vocabulary, tokens) {}

nn::Hidden EmbeddingUnit::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) {
  hidden.states = tokens_.forward(batch.tokens);
  return hidden;
}

nn::LinearWeights Block::weights(const LlamaOptions& o, std::int64_t in,
                                 const std::vector<std::pair<std::string, std::int64_t>>& parts, bool bias) {
  std::vector<capstan::layout::Param> weights;
  std::vector<capstan::layout::Param> biases;
  for (const auto& [part, features] : parts) {
    weights.push_back(nn::record(cat(file_, ".", part, ".weight"), {features, in}, Init::normal(o.init_std), true));
    biases.push_back(nn::record(cat(file_, ".", part, ".bias"), {features}, Init::zeros(), false));
  }
  auto weight = add_group(std::move(weights));
  return {std::move(weight), bias ? add_group(std::move(biases)) : nullptr};
}

nn::Attention::Weights Block::attention_weights(const LlamaOptions& o) {
  const auto queries = o.num_heads * o.dim(), keys = o.kv_heads() * o.dim();
  auto qkv =
      weights(o, o.hidden_size, {{"self_attn.q_proj", queries}, {"self_attn.k_proj", keys}, {"self_attn.v_proj", keys}},
              o.qkv_bias());
  auto projection = weights(o, queries, {{"self_attn.o_proj", o.hidden_size}}, o.attention_bias);
  return {std::move(qkv), std::move(projection), nullptr, nullptr};
}

namespace {

nn::Attention::Kind attention_kind(const LlamaOptions& o, std::int64_t index) {
  nn::Attention::Kind kind;
  kind.heads = {o.num_heads, o.kv_heads(), o.dim()};
  kind.rotary = rotary(o);
  kind.dropout = o.attention_dropout;
  kind.layer = static_cast<std::size_t>(index);
  return kind;
}

}  // namespace

Block::Block(const LlamaOptions& o, std::int64_t index)
    : Unit(cat("blocks.", index)),
      file_(cat("model.layers.", index)),
      norm1_(*this, "norm1", add_record(file_ + ".input_layernorm.weight", {o.hidden_size}, Init::ones(), false),
             o.rms_norm_epsilon),
      norm2_(*this, "norm2",
             add_record(file_ + ".post_attention_layernorm.weight", {o.hidden_size}, Init::ones(), false),
             o.rms_norm_epsilon),
      attention_(*this, attention_kind(o, index), attention_weights(o)),
      mlp_(*this, {}, weights(o, o.hidden_size, {{"mlp.gate_proj", o.ff_dim}, {"mlp.up_proj", o.ff_dim}}, o.mlp_bias),
           weights(o, o.ff_dim, {{"mlp.down_proj", o.hidden_size}}, o.mlp_bias)) {}

nn::Hidden Block::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) {
  // By value: a recomputed region runs again in backward.
  const auto attend = [this, batch, cache](const at::Tensor& in) { return attention_.forward(in, batch, cache); };
  auto x = hidden.states + attention_region_(norm1_.forward(hidden.states), attend);
  const auto feed = [this](const at::Tensor& in) { return mlp_.forward(in); };
  hidden.states = x + mlp_region_(norm2_.forward(x), feed);
  return hidden;
}

Head::Head(const LlamaOptions& o, const nn::WeightPtr& matrix)
    : Unit("head"),
      norm_(*this, "norm", add_record("model.norm.weight", {o.hidden_size}, Init::ones(), false), o.rms_norm_epsilon),
      head_(*this, "lm_head", matrix) {}

nn::Hidden Head::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) {
  hidden.states = head_.forward(norm_.forward(hidden.states), batch);
  return hidden;
}

}  // namespace llama
