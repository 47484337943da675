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
      tokens_(*this, "wte", nn::Split::vocabulary, tokens),
      positions_(*this, "wpe", nn::Split::none,
                 add_record("wpe.weight", {o.seq_length, o.hidden_size}, Init::normal(o.init_std), true)),
      dropout_(*this, "embedding.dropout", o.embedding_dropout.value_or(o.dropout)) {}

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

nn::WeightPtr Block::vector(const std::string& record, std::int64_t size, Init init) {
  return add_record(file_ + "." + record, {size}, init, false);
}

nn::WeightPtr Block::matrix(const std::string& record, std::int64_t out, std::int64_t in, double std) {
  return add_record(file_ + "." + record, {out, in}, Init::normal(std), true);
}

namespace {

// GPT-2's initialisation: every matrix N(0, std), those that write to the residual stream scaled by 1/sqrt(2 layers).
double residual_std(const GptOptions& o) { return o.init_std / std::sqrt(2.0 * static_cast<double>(o.num_layers)); }

nn::Attention::Kind attention_kind(const GptOptions& o, std::int64_t index) {
  nn::Attention::Kind kind;
  kind.heads = {o.num_heads, o.num_heads, o.hidden_size / o.num_heads};
  kind.dropout = o.attention_dropout.value_or(o.dropout);
  kind.layer = static_cast<std::size_t>(index);
  return kind;
}

nn::Mlp::Kind mlp_kind(const GptOptions& o) {
  return {o.activation == "gelu" ? nn::Activation::gelu : nn::Activation::gelu_tanh, false};
}

}  // namespace

Block::Block(const GptOptions& o, std::int64_t index)
    : Unit(block_name(index)),
      file_("h." + std::to_string(index)),
      norm1_(*this, "norm1", vector("ln_1.weight", o.hidden_size, Init::ones()),
             vector("ln_1.bias", o.hidden_size, Init::zeros()), o.layer_norm_epsilon),
      norm2_(*this, "norm2", vector("ln_2.weight", o.hidden_size, Init::ones()),
             vector("ln_2.bias", o.hidden_size, Init::zeros()), o.layer_norm_epsilon),
      attention_(*this, attention_kind(o, index),
                 {{fused_qkv(".weight", o, false), fused_qkv(".bias", o, true)},
                  {matrix("attn.c_proj.weight", o.hidden_size, o.hidden_size, residual_std(o)),
                   vector("attn.c_proj.bias", o.hidden_size, Init::zeros())},
                  nullptr,
                  nullptr}),
      mlp_(*this, mlp_kind(o),
           {matrix("mlp.c_fc.weight", o.ff(), o.hidden_size, o.init_std),
            vector("mlp.c_fc.bias", o.ff(), Init::zeros())},
           {matrix("mlp.c_proj.weight", o.hidden_size, o.ff(), residual_std(o)),
            vector("mlp.c_proj.bias", o.hidden_size, Init::zeros())}),
      dropout1_(*this, name() + ".dropout1", o.dropout),
      dropout2_(*this, name() + ".dropout2", o.dropout) {}

nn::Hidden Block::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) {
  auto x = hidden.states;
  // By value: a recomputed region runs again in backward.
  const auto attention = attention_region_(
      norm1_.forward(x), [this, batch, cache](const at::Tensor& in) { return attention_.forward(in, batch, cache); });
  x = x + dropout1_.forward(attention, batch);
  const auto mlp = mlp_region_(norm2_.forward(x), [this](const at::Tensor& in) { return mlp_.forward(in); });
  hidden.states = x + dropout2_.forward(mlp, batch);
  return hidden;
}

Head::Head(const GptOptions& o, const nn::WeightPtr& matrix)
    : Unit("head"),
      norm_(*this, "norm", add_record("ln_f.weight", {o.hidden_size}, Init::ones(), false),
            add_record("ln_f.bias", {o.hidden_size}, Init::zeros(), false), o.layer_norm_epsilon),
      head_(*this, "lm_head", matrix) {}

nn::Hidden Head::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) {
  hidden.states = head_.forward(norm_.forward(hidden.states), batch);
  return hidden;
}

}  // namespace gpt
