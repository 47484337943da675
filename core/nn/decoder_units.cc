#include "nn/decoder_units.h"

#include <capstan/base/text.h>

#include <utility>

namespace capstan::nn {
namespace {

using layout::Init;

WeightPtr weight_of(std::vector<layout::Param> records) { return std::make_shared<Weight>(std::move(records)); }

// "embed_tokens" of "model.embed_tokens": what layers are called that strategies name.
std::string last_part(const std::string& module) { return module.substr(module.rfind('.') + 1); }

Attention::Kind attention_kind(const DecoderSpec& s, std::int64_t index) {
  Attention::Kind kind;
  kind.heads = s.heads;
  kind.order = s.names.qkv.size() == 1 ? Attention::Order::by_head : Attention::Order::by_kind;
  kind.rotary = s.rotary;
  kind.alibi = s.alibi;
  kind.scores = s.scores;
  if (s.blocks_without_window.contains(index)) kind.scores.window.reset();
  kind.dropout = s.attention_dropout;
  kind.norm_epsilon = s.norm_epsilon;
  kind.layer = static_cast<std::size_t>(index);
  return kind;
}

}  // namespace

WeightPtr DecoderRecords::table(const std::string& module, std::int64_t rows) const {
  return weight_of({record(module + ".weight", {rows, spec_.hidden_size}, Init::normal(spec_.init_std), true)});
}

WeightPtr DecoderRecords::vector(const std::string& name, std::int64_t size, Init init) const {
  return weight_of({record(name, {size}, init, false)});
}

LinearWeights DecoderRecords::linear(const std::vector<std::string>& modules,
                                     const std::vector<layout::Shape>& features, std::int64_t in, bool bias,
                                     double std) const {
  std::vector<layout::Param> weights;
  std::vector<layout::Param> biases;
  for (std::size_t i = 0; i < modules.size(); ++i) {
    auto shape = features.at(i);
    biases.push_back(record(modules[i] + ".bias", shape, Init::zeros(), false));
    shape.push_back(in);
    weights.push_back(record(modules[i] + ".weight", shape, Init::normal(std), true));
  }
  return {weight_of(std::move(weights)), bias ? weight_of(std::move(biases)) : nullptr};
}

Attention::Weights DecoderRecords::attention(const std::string& block) const {
  const auto& names = spec_.names;
  const auto& heads = spec_.heads;
  const auto queries = heads.queries * heads.dim, keys = heads.keys * heads.dim;
  std::vector<std::string> modules;
  for (const auto& name : names.qkv) modules.push_back(block + name);
  const auto features = modules.size() == 1 ? std::vector<layout::Shape>{{heads.queries, 3, heads.dim}}
                                            : std::vector<layout::Shape>{{queries}, {keys}, {keys}};
  Attention::Weights weights;
  weights.qkv = linear(modules, features, spec_.hidden_size, spec_.qkv_bias, spec_.init_std);
  weights.projection =
      linear({block + names.projection}, {{spec_.hidden_size}}, queries, spec_.projection_bias, residual_std());
  if (spec_.head_norms == DecoderSpec::HeadNorms::none) return weights;
  const bool each = spec_.head_norms == DecoderSpec::HeadNorms::each;
  weights.query_norm = vector(block + names.query_norm + ".weight", each ? heads.dim : queries, Init::ones());
  weights.key_norm = vector(block + names.key_norm + ".weight", each ? heads.dim : keys, Init::ones());
  return weights;
}

Mixture::Weights DecoderRecords::mixture(const std::string& block) const {
  const auto make = [&](const std::string& name, layout::Shape shape) {
    return weight_of({record(block + name, std::move(shape), Init::normal(spec_.init_std), true)});
  };
  const auto count = spec_.mixture.count, hidden = spec_.hidden_size, ff = spec_.ff_dim;
  const auto& names = spec_.names;
  return {make(names.router + ".weight", {count, hidden}),
          make(names.experts + ".gate_up_proj", {count, 2, ff, hidden}),
          make(names.experts + ".down_proj", {count, hidden, ff})};
}

DecoderNorm::DecoderNorm(Layer& parent, const std::string& name, const DecoderSpec& spec, const std::string& module)
    : epsilon_(spec.norm_epsilon) {
  if (module.empty()) return;
  const DecoderRecords records(spec);
  weight_ = records.vector(module + ".weight", spec.hidden_size, Init::ones());
  if (spec.norm == DecoderSpec::Norm::rms) {
    rms_.emplace(parent, name, weight_, epsilon_);
    return;
  }
  bias_ = records.vector(module + ".bias", spec.hidden_size, Init::zeros());
  layer_.emplace(parent, name, weight_, bias_, epsilon_);
}

at::Tensor DecoderNorm::forward(const at::Tensor& x) const {
  if (rms_) return rms_->forward(x);
  return layer_ ? layer_->forward(x) : x;
}

ops::Normed DecoderNorm::forward_sum(const at::Tensor& x, const at::Tensor& y) const {
  const bool fused = weight_ && !x.is_cpu() && !(rms_ && rms_->mean_square);
  if (fused) return ops::add_norm(x, y, {weight_->value(), bias_ ? bias_->value() : at::Tensor(), epsilon_});
  const auto sum = y.defined() ? x + y : x;
  return {sum, forward(sum)};
}

DecoderEmbedding::DecoderEmbedding(const DecoderSpec& s, const WeightPtr& tokens)
    : Unit("embedding"),
      multiplier_(s.embedding_multiplier),
      tokens_(*this, last_part(s.names.tokens), Split::vocabulary, tokens),
      norm_(*this, "norm", s, s.names.embedding_norm),
      dropout_(*this, "embedding.dropout", s.embedding_dropout) {
  const auto& positions = s.names.positions;
  if (positions.empty()) return;
  positions_.emplace(*this, last_part(positions), Split::none, DecoderRecords(s).table(positions, s.max_positions));
}

Hidden DecoderEmbedding::forward(Hidden hidden, const Batch& batch, KVCache*) {
  auto x = tokens_.forward(batch.tokens, batch.real);
  if (multiplier_ != 1) x = x * multiplier_;
  if (positions_) x = x + positions_->forward(batch.positions, batch.real);
  hidden.states = dropout_.forward(norm_.forward(x), batch);
  return hidden;
}

namespace {

std::string in_block(const std::string& block, const std::string& module, bool wanted = true) {
  return wanted ? block + module : std::string();
}

}  // namespace

DecoderBlock::DecoderBlock(const DecoderSpec& s, std::int64_t index)
    : Unit(cat("blocks.", index)),
      file_(cat(s.names.block, index, ".")),
      residual_after_norm_(s.residual_after_norm),
      multiplier_(s.residual_multiplier),
      balanced_(s.mixture.balanced),
      norm1_(*this, "norm1", s, in_block(file_, s.names.attention_norm, s.norm_before)),
      norm2_(*this, "norm2", s, in_block(file_, s.names.mlp_norm, s.norm_before)),
      attention_(*this, attention_kind(s, index), DecoderRecords(s).attention(file_)),
      post_norm1_(*this, "post_norm1", s, in_block(file_, s.names.attention_post_norm, s.norm_after)),
      post_norm2_(*this, "post_norm2", s, in_block(file_, s.names.mlp_post_norm, s.norm_after)),
      dropout1_(*this, name() + ".dropout1", s.dropout),
      dropout2_(*this, name() + ".dropout2", s.dropout) {
  const DecoderRecords records(s);
  if (s.mixture.is_in(index)) {
    mixture_.emplace(*this, records.mixture(file_), s.mixture.per_token, s.mixture.sum_to_one);
    return;
  }
  const auto ff = s.mixture.count > 0 ? s.mixture.dense_ff_dim : s.ff_dim;
  std::vector<std::string> up;
  for (const auto& module : s.names.up) up.push_back(file_ + module);
  mlp_.emplace(*this, s.mlp,
               records.linear(up, std::vector<layout::Shape>(up.size(), {ff}), s.hidden_size, s.mlp_bias, s.init_std),
               records.linear({file_ + s.names.down}, {{s.hidden_size}}, ff, s.mlp_bias, records.residual_std()));
}

at::Tensor DecoderBlock::scaled(const at::Tensor& y) const { return multiplier_ == 1 ? y : y * multiplier_; }

Hidden DecoderBlock::forward(Hidden hidden, const Batch& batch, KVCache* cache) {
  // By value: a recomputed region runs again in backward, and goes by what this forward decides.
  const auto kept = batch.kept || !mixture_ ? batch.kept : std::make_shared<RecomputeContext>();
  const auto attend = [this, batch, cache](const at::Tensor& in) { return attention_.forward(in, batch, cache); };
  const auto feed = [this, kept](const at::Tensor& in) {
    return mixture_ ? mixture_->forward(in, *kept) : mlp_->forward(in);
  };
  const auto in = norm1_.forward_sum(hidden.states, {});
  const auto attended = dropout1_.forward(post_norm1_.forward(attention_region_(in.normed, attend)), batch);
  const auto mid = norm2_.forward_sum(residual_after_norm_ ? in.normed : in.sum, scaled(attended));
  const auto fed = dropout2_.forward(post_norm2_.forward(mlp_region_(mid.normed, feed)), batch);
  hidden.states = (residual_after_norm_ ? mid.normed : mid.sum) + scaled(fed);
  if (mixture_) mixture_->count(hidden, mid.normed, batch, *kept, balanced_);
  return hidden;
}

DecoderHead::DecoderHead(const DecoderSpec& s, const WeightPtr& matrix)
    : Unit("head"),
      multiplier_(s.logits_multiplier),
      balance_weight_(s.mixture.balance_weight),
      norm_(*this, "norm", s, s.names.norm),
      head_(*this, last_part(s.names.head), matrix) {
  if (s.mixture.count > 0) balance_.emplace(*this);
}

Hidden DecoderHead::forward(Hidden hidden, const Batch& batch, KVCache*) {
  const auto x = norm_.forward(hidden.states);
  hidden.states = head_.forward(multiplier_ == 1 ? x : x * multiplier_, batch);
  if (!hidden.sums.empty()) hidden.sums = {balance_->forward(hidden.sums) * balance_weight_};
  return hidden;
}

}  // namespace capstan::nn
