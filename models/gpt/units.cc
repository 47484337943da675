#include "units.h"

#include <ATen/ATen.h>

#include <cmath>

namespace gpt {
namespace {

using capstan::layout::Init;

std::string block_name(std::int64_t index) { return "blocks." + std::to_string(index); }

}  // namespace

EmbeddingUnit::EmbeddingUnit(const GptOptions& o, const nn::WeightPtr& tokens)
    : Unit("embedding"),
      tokens_("wte", nn::Split::vocabulary, add(tokens)),
      positions_("wpe", nn::Split::none,
                 add_record("wpe.weight", {o.seq_length, o.hidden_size}, Init::normal(o.init_std), true)),
      dropout_("embedding.dropout", o.embedding_dropout.value_or(o.dropout)) {
  expose(tokens_);
  expose(positions_);
  expose(dropout_);
}

nn::Hidden EmbeddingUnit::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) {
  const auto x = tokens_.forward(batch.tokens) + positions_.forward(batch.positions);
  hidden.states = dropout_.forward(x, batch);
  return hidden;
}

nn::WeightPtr Block::fused_qkv(const std::string& suffix, const GptOptions& o, bool is_bias) {
  std::vector<capstan::layout::Param> records;
  for (const char* part : {"q", "k", "v"}) {
    std::vector<std::int64_t> shape{o.hidden_size};
    if (!is_bias) shape.push_back(o.hidden_size);
    records.push_back(nn::record(file_ + ".attn." + part + suffix, shape,
                                 is_bias ? Init::zeros() : Init::normal(o.init_std), !is_bias));
  }
  return add(std::make_shared<nn::Weight>(std::move(records)));
}

// GPT-2's initialisation: every matrix N(0, std), those that write to the residual stream scaled by 1/sqrt(2 layers).
Block::Block(const GptOptions& o, std::int64_t index)
    : Unit(block_name(index)),
      file_("h." + std::to_string(index)),
      index_(static_cast<std::size_t>(index)),
      head_dim_(o.hidden_size / o.num_heads),
      exact_gelu_(o.activation == "gelu"),
      norm1_(add_record(file_ + ".ln_1.weight", {o.hidden_size}, Init::ones(), false),
             add_record(file_ + ".ln_1.bias", {o.hidden_size}, Init::zeros(), false), o.layer_norm_epsilon),
      norm2_(add_record(file_ + ".ln_2.weight", {o.hidden_size}, Init::ones(), false),
             add_record(file_ + ".ln_2.bias", {o.hidden_size}, Init::zeros(), false), o.layer_norm_epsilon),
      qkv_("linear_qkv", nn::Split::columns, fused_qkv(".weight", o, false), fused_qkv(".bias", o, true)),
      projection_("linear_proj", nn::Split::rows,
                  add_record(file_ + ".attn.c_proj.weight", {o.hidden_size, o.hidden_size},
                             Init::normal(o.init_std / std::sqrt(2.0 * static_cast<double>(o.num_layers))), true),
                  add_record(file_ + ".attn.c_proj.bias", {o.hidden_size}, Init::zeros(), false)),
      up_("linear_fc1", nn::Split::columns,
          add_record(file_ + ".mlp.c_fc.weight", {o.ff(), o.hidden_size}, Init::normal(o.init_std), true),
          add_record(file_ + ".mlp.c_fc.bias", {o.ff()}, Init::zeros(), false)),
      down_("linear_fc2", nn::Split::rows,
            add_record(file_ + ".mlp.c_proj.weight", {o.hidden_size, o.ff()},
                       Init::normal(o.init_std / std::sqrt(2.0 * static_cast<double>(o.num_layers))), true),
            add_record(file_ + ".mlp.c_proj.bias", {o.hidden_size}, Init::zeros(), false)),
      attention_dropout_(name() + ".attention.dropout", o.attention_dropout.value_or(o.dropout)),
      dropout1_(name() + ".dropout1", o.dropout),
      dropout2_(name() + ".dropout2", o.dropout) {
  for (auto* linear : {&qkv_, &projection_, &up_, &down_}) expose(*linear);
  for (auto* dropout : {&attention_dropout_, &dropout1_, &dropout2_}) expose(*dropout);
  expose(attention_);
  expose(mlp_);
}

at::Tensor Block::attend(const at::Tensor& x, const nn::Batch& batch, nn::KVCache* cache) const {
  const auto qkv = qkv_.forward(x).chunk(3, -1);
  const auto heads = [&](const at::Tensor& t) { return t.view({t.size(0), t.size(1), -1, head_dim_}).transpose(1, 2); };
  auto y = nn::causal_attention(heads(qkv[0]), heads(qkv[1]), heads(qkv[2]), attention_dropout_, batch, cache, index_);
  y = y.transpose(1, 2).flatten(2);
  return projection_.forward(y);
}

at::Tensor Block::feed_forward(const at::Tensor& x) const {
  return down_.forward(at::gelu(up_.forward(x), exact_gelu_ ? "none" : "tanh"));
}

nn::Hidden Block::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) {
  auto x = hidden.states;
  // By value: a recomputed region runs again in backward.
  const auto attention =
      attention_(norm1_.forward(x), [this, batch, cache](const at::Tensor& in) { return attend(in, batch, cache); });
  x = x + dropout1_.forward(attention, batch);
  const auto mlp = mlp_(norm2_.forward(x), [this](const at::Tensor& in) { return feed_forward(in); });
  hidden.states = x + dropout2_.forward(mlp, batch);
  return hidden;
}

Head::Head(const GptOptions& o, const nn::WeightPtr& matrix)
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

}  // namespace gpt
