#include "units.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

#include <algorithm>

namespace mixtral {

using capstan::cat;
using capstan::layout::Init;

std::string moe_name(std::int64_t block) { return cat("model.layers.", block, ".block_sparse_moe"); }

EmbeddingUnit::EmbeddingUnit(const nn::WeightPtr& tokens)
    : Unit("embedding"), tokens_("embed_tokens", nn::Split::vocabulary, add(tokens)) {
  expose(tokens_);
}

nn::Hidden EmbeddingUnit::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) {
  hidden.states = tokens_.forward(batch.tokens);
  return hidden;
}

nn::RotaryAttention Block::make_attention(const MixtralOptions& o, std::int64_t index) {
  const auto queries = o.num_heads * o.dim(), keys = o.kv_heads() * o.dim();
  const auto record = [&](const char* part, std::int64_t out, std::int64_t in) {
    return nn::record(cat(file_, ".self_attn.", part, ".weight"), {out, in}, Init::normal(o.init_std), true);
  };
  nn::Linear qkv("linear_qkv", nn::Split::columns,
                 add_group({record("q_proj", queries, o.hidden_size), record("k_proj", keys, o.hidden_size),
                            record("v_proj", keys, o.hidden_size)}),
                 nullptr);
  nn::Linear projection("linear_proj", nn::Split::rows, add_group({record("o_proj", o.hidden_size, queries)}), nullptr);
  return {{o.num_heads, o.kv_heads(), o.dim()},
          nn::Rotary(o.dim(), o.rope_theta, {}),
          std::move(qkv),
          std::move(projection),
          nn::Dropout(name() + ".attention.dropout", o.attention_dropout),
          static_cast<std::size_t>(index)};
}

// Expert parallelism gives each rank some of the experts, so ranks along ep hold different ones. Data ranks that don't
// share those evenly cut the rows of each expert's matrices.
nn::Experts Block::make_experts(const MixtralOptions& o) {
  const auto record = [&](const char* part, std::vector<std::int64_t> shape, std::int64_t shard_dim) {
    auto param =
        nn::record(cat(file_, ".block_sparse_moe.experts.", part), std::move(shape), Init::normal(o.init_std), true);
    std::erase(param.data_axes, capstan::layout::Axis::ep);
    param.shard_dims.push_back(shard_dim);
    return param;
  };
  auto gate_up = add_group({record("gate_up_proj", {o.num_experts, 2, o.ff_dim, o.hidden_size}, 2)});
  return {"experts", std::move(gate_up), add_group({record("down_proj", {o.num_experts, o.hidden_size, o.ff_dim}, 1)})};
}

Block::Block(const MixtralOptions& o, std::int64_t index)
    : Unit(cat("blocks.", index)),
      file_(cat("model.layers.", index)),
      aux_loss_(o.router_aux_loss),
      norm1_(add_record(file_ + ".input_layernorm.weight", {o.hidden_size}, Init::ones(), false), o.rms_norm_epsilon),
      norm2_(add_record(file_ + ".post_attention_layernorm.weight", {o.hidden_size}, Init::ones(), false),
             o.rms_norm_epsilon),
      attention_(make_attention(o, index)),
      router_(nn::Linear("router", nn::Split::none,
                         add_record(moe_name(index) + ".gate.weight", {o.num_experts, o.hidden_size},
                                    Init::normal(o.init_std), true),
                         nullptr),
              o.experts_per_token),
      experts_(make_experts(o)) {
  expose(attention_);
  expose(router_);
  expose(experts_);
  expose(attention_region_);
  expose(mlp_region_);
}

at::Tensor Block::mix(const at::Tensor& x, nn::Kept& kept) const {
  const auto whole = experts_.enter ? experts_.enter(x) : x;
  const auto tokens = whole.flatten(0, 1);
  const auto mixed = experts_.forward(tokens, router_.forward(tokens, &kept), &kept).view_as(whole);
  return experts_.leave ? experts_.leave(mixed) : mixed;
}

nn::Hidden Block::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) {
  // By value: a recomputed region runs again in backward, and goes by what this forward decides.
  const auto kept = batch.kept ? batch.kept : std::make_shared<nn::Kept>();
  const auto attend = [this, batch, cache](const at::Tensor& in) { return attention_.forward(in, batch, cache); };
  const auto x = hidden.states + attention_region_(norm1_.forward(hidden.states), attend);
  const auto normed = norm2_.forward(x);
  hidden.states = x + mlp_region_(normed, [this, kept](const at::Tensor& in) { return mix(in, *kept); });
  if (batch.training) hidden.expert_tokens.push_back(router_.tokens(batch, *kept));
  if (aux_loss_ && batch.training) {
    // The router again, outside of the region, which returns one tensor: a small product next to the experts'.
    if (hidden.sums.empty()) hidden.sums = router_.no_load(normed);
    router_.add_load(hidden.sums, normed.flatten(0, 1), batch, kept.get());
  }
  return hidden;
}

Head::Head(const MixtralOptions& o, const nn::WeightPtr& matrix)
    : Unit("head"),
      aux_loss_coef_(o.router_aux_loss_coef),
      norm_(add_record("model.norm.weight", {o.hidden_size}, Init::ones(), false), o.rms_norm_epsilon),
      head_("lm_head", add(matrix)) {
  expose(head_);
  expose(balance_);
}

nn::Hidden Head::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) {
  hidden.states = head_.forward(norm_.forward(hidden.states), batch);
  if (!hidden.sums.empty()) hidden.sums = {balance_.forward(hidden.sums) * aux_loss_coef_};
  return hidden;
}

}  // namespace mixtral
