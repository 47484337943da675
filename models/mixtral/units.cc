#include "units.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <algorithm>

namespace mixtral {

using capstan::cat;
using capstan::layout::Init;

std::string moe_name(std::int64_t block) { return cat("model.layers.", block, ".block_sparse_moe"); }

EmbeddingUnit::EmbeddingUnit(const nn::WeightPtr& tokens)
    : Unit("embedding"), tokens_(*this, "embed_tokens", nn::Split::vocabulary, tokens) {}

nn::Hidden EmbeddingUnit::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) {
  hidden.states = tokens_.forward(batch.tokens);
  return hidden;
}

nn::Attention::Weights Block::attention_weights(const MixtralOptions& o) {
  const auto queries = o.num_heads * o.dim(), keys = o.kv_heads() * o.dim();
  const auto record = [&](const char* part, std::int64_t out, std::int64_t in) {
    return nn::record(cat(file_, ".self_attn.", part, ".weight"), {out, in}, Init::normal(o.init_std), true);
  };
  auto qkv = add_group({record("q_proj", queries, o.hidden_size), record("k_proj", keys, o.hidden_size),
                        record("v_proj", keys, o.hidden_size)});
  return {
      {std::move(qkv), nullptr}, {add_group({record("o_proj", o.hidden_size, queries)}), nullptr}, nullptr, nullptr};
}

nn::Mixture::Weights Block::mixture_weights(const MixtralOptions& o) {
  const auto make = [&](const char* part, std::vector<std::int64_t> shape) {
    return add_record(cat(file_, ".block_sparse_moe.", part), std::move(shape), Init::normal(o.init_std), true);
  };
  auto gate = make("gate.weight", {o.num_experts, o.hidden_size});
  auto gate_up = make("experts.gate_up_proj", {o.num_experts, 2, o.ff_dim, o.hidden_size});
  return {std::move(gate), std::move(gate_up), make("experts.down_proj", {o.num_experts, o.hidden_size, o.ff_dim})};
}

namespace {

nn::Attention::Kind attention_kind(const MixtralOptions& o, std::int64_t index) {
  nn::Attention::Kind kind;
  kind.heads = {o.num_heads, o.kv_heads(), o.dim()};
  kind.rotary = nn::Rotary(o.dim(), o.rope_theta, {});
  kind.dropout = o.attention_dropout;
  kind.layer = static_cast<std::size_t>(index);
  return kind;
}

}  // namespace

Block::Block(const MixtralOptions& o, std::int64_t index)
    : Unit(cat("blocks.", index)),
      file_(cat("model.layers.", index)),
      aux_loss_(o.router_aux_loss),
      norm1_(*this, "norm1", add_record(file_ + ".input_layernorm.weight", {o.hidden_size}, Init::ones(), false),
             o.rms_norm_epsilon),
      norm2_(*this, "norm2",
             add_record(file_ + ".post_attention_layernorm.weight", {o.hidden_size}, Init::ones(), false),
             o.rms_norm_epsilon),
      attention_(*this, attention_kind(o, index), attention_weights(o)),
      mixture_(*this, mixture_weights(o), o.experts_per_token) {}

nn::Hidden Block::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) {
  // By value: a recomputed region runs again in backward, and goes by what this forward decides.
  const auto kept = batch.kept ? batch.kept : std::make_shared<nn::Kept>();
  const auto attend = [this, batch, cache](const at::Tensor& in) { return attention_.forward(in, batch, cache); };
  const auto x = hidden.states + attention_region_(norm1_.forward(hidden.states), attend);
  const auto normed = norm2_.forward(x);
  hidden.states = x + mlp_region_(normed, [this, kept](const at::Tensor& in) { return mixture_.forward(in, *kept); });
  mixture_.count(hidden, normed, batch, *kept, aux_loss_);
  return hidden;
}

Head::Head(const MixtralOptions& o, const nn::WeightPtr& matrix)
    : Unit("head"),
      aux_loss_coef_(o.router_aux_loss_coef),
      norm_(*this, "norm", add_record("model.norm.weight", {o.hidden_size}, Init::ones(), false), o.rms_norm_epsilon),
      head_(*this, "lm_head", matrix) {}

nn::Hidden Head::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) {
  hidden.states = head_.forward(norm_.forward(hidden.states), batch);
  if (!hidden.sums.empty()) hidden.sums = {balance_.forward(hidden.sums) * aux_loss_coef_};
  return hidden;
}

}  // namespace mixtral
