#include <ATen/ATen.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/decoder/decoder.h>

#include <utility>

#include "check_attention.h"
#include "feed_forward.h"
#include "latent.h"
#include "norm.h"
#include "records.h"
#include "sharing.h"

namespace capstan::decoder {
namespace {

using layout::Init;
using nn::Batch;
using nn::Hidden;
using nn::KVCache;
using nn::WeightPtr;

nn::Attention::Kind attention_kind(const Spec& s, std::int64_t index) {
  nn::Attention::Kind kind;
  kind.spec = s.attention;
  kind.order = s.names.qkv.size() == 1 ? nn::Attention::Order::by_head : nn::Attention::Order::by_kind;
  kind.rotary = s.rotary;
  kind.keys_are_values = s.keys_are_values;
  kind.value_norm = s.value_norm;
  kind.query_scaling = s.query_scaling;
  kind.norm_factor = s.norm_factor;
  kind.output_gate = s.output_gate;
  kind.dropout = s.attention_dropout;
  kind.norm_epsilon = s.norm_epsilon;
  // Where it has another block's keys and values, they are in that one's entry of the cache, and written there again.
  kind.layer = static_cast<std::size_t>(s.sharing.of.value_or(index));
  return kind;
}

nn::Attention::Weights attention_of(const Spec& s, const std::string& block) {
  const auto& heads = s.attention.heads;
  const auto queries = heads.queries * heads.dim, keys = heads.keys * heads.dim, values = heads.keys * heads.values();
  std::vector<std::string> modules;
  for (const auto& name : s.names.qkv) modules.push_back(block + name);
  const auto features = modules.size() == 1
                            ? std::vector<layout::Shape>{{heads.queries, 3, heads.dim}}
                            : std::vector<layout::Shape>{{(s.output_gate ? 2 : 1) * queries}, {keys}, {values}};
  if (s.keys_are_values) modules.resize(2);
  if (s.sharing.of) modules.resize(1);
  nn::Attention::Weights weights;
  weights.qkv = linear_of({modules, features, s.hidden_size, s.qkv_bias, s.init_std});
  weights.projection = linear_of({{block + s.names.projection},
                                  {{s.hidden_size}},
                                  heads.queries * heads.values(),
                                  s.projection_bias,
                                  residual_std(s)});
  if (s.attention.sinks) weights.sinks = vector_of(block + s.names.sinks, heads.queries, Init::normal(s.init_std));
  if (s.head_norms == Spec::HeadNorms::none) return weights;
  const bool each = s.head_norms == Spec::HeadNorms::each;
  const auto init = initial_factor(s);
  weights.query_norm = vector_of(block + s.names.query_norm + ".weight", each ? heads.dim : queries, init);
  if (s.sharing.of) return weights;
  weights.key_norm = vector_of(block + s.names.key_norm + ".weight", each ? heads.dim : keys, init);
  return weights;
}

at::Tensor normed_heads(const nn::RmsNorm* norm, const at::Tensor& heads) {
  if (!norm) return heads;
  return norm->use() == nn::Use::heads ? norm->forward(heads) : norm->forward(heads.flatten(2)).view_as(heads);
}

// What core's rows make of the product without norms, and then these.
nn::HeadsRow turned_before_norms_row() {
  const auto run = [](const nn::HeadsCall& call) -> ops::RotaryHeads {
    auto without = call;
    without.query_norm = without.key_norm = nullptr;
    const auto heads = nn::HeadsTable().row_for(without)->run(without);
    return {normed_heads(call.query_norm, heads.q), normed_heads(call.key_norm, heads.k), heads.v};
  };
  return {"rotation, then norms", [](const nn::HeadsCall&) -> nn::Verdict { return {}; }, run};
}

std::unique_ptr<nn::AttentionCore> make_attention(nn::Layer& parent, const Spec& s, std::int64_t index,
                                                  const std::string& block) {
  check_attention(s, index);
  if (s.latent) return latent_attention(parent, s, index, block);
  auto attention = std::make_unique<nn::Attention>(parent, attention_kind(s, index), attention_of(s, block));
  if (s.norms_after_rotary) attention->preparation().add(turned_before_norms_row());
  return attention;
}

class Embedding : public nn::Unit {
 public:
  Embedding(const Spec& s, const WeightPtr& tokens)
      : Unit("embedding"),
        multiplier_(s.embedding_multiplier),
        rounds_multiplier_(s.rounds_multiplier),
        tokens_(*this, last_part(s.names.tokens), nn::WeightSplit::vocabulary, tokens),
        norm_(*this, "norm", s, s.names.embedding_norm),
        dropout_(*this, "embedding.dropout", s.embedding_dropout) {
    if (s.inputs.width > 0) inputs_.emplace(*this, s);
    const auto& positions = s.names.positions;
    if (positions.empty()) return;
    positions_.emplace(*this, last_part(positions), nn::WeightSplit::none, table_of(s, positions, s.max_positions));
  }

  Hidden forward(Hidden hidden, const Batch& batch, KVCache*) override {
    auto x = tokens_.forward(batch.tokens, batch.real);
    if (multiplier_ != 1) x = x * (rounds_multiplier_ ? rounded(multiplier_, x.scalar_type()) : multiplier_);
    if (inputs_) hidden.carried.push_back(inputs_->forward(x, batch));
    if (positions_) x = x + positions_->forward(batch.positions, batch.real);
    hidden.states = dropout_.forward(norm_.forward(x), batch);
    return hidden;
  }

 private:
  double multiplier_;
  bool rounds_multiplier_;
  nn::Embedding tokens_;
  std::optional<nn::Embedding> positions_;
  std::optional<BlockInputs> inputs_;
  StatesNorm norm_;
  nn::Dropout dropout_;
};

bool shares_keys(const Spec& s) { return s.sharing.gives || s.sharing.of; }

// What mixes the tokens of a sequence: attention, or the model's own layer in its place.
class TokenLayer {
 public:
  TokenLayer(nn::Layer& block, const Spec& s, std::int64_t index, const std::string& file)
      : mixer_(s.token_mixer ? s.token_mixer(block, index, file) : nullptr),
        attention_(mixer_ ? nullptr : make_attention(block, s, index, file)) {}
  at::Tensor forward(const at::Tensor& x, const Batch& batch, KVCache* cache) const {
    return mixer_ ? mixer_->forward(x, batch, cache) : attention_->forward(x, batch, cache);
  }
  // Where keys and values are shared; a layer of the model's own has none.
  nn::Attention& attention() {
    CAPSTAN_ASSERT(attention_ != nullptr);
    return dynamic_cast<nn::Attention&>(*attention_);
  }

 private:
  std::unique_ptr<TokenMixer> mixer_;
  std::unique_ptr<nn::AttentionCore> attention_;
};

// How a block's two layers stand to each other, as Spec::parallel and one_norm say.
enum class Order { in_turn, side_by_side, after_one_norm };

Order order_of(const Spec& s) {
  if (!s.parallel) return Order::in_turn;
  return s.one_norm ? Order::after_one_norm : Order::side_by_side;
}

class Block : public nn::Unit {
 public:
  /// `s`: the block's own.
  Block(const Spec& s, std::int64_t index) : Block(s, index, cat(s.names.block, index, ".")) {}
  Hidden forward(Hidden hidden, const Batch& batch, KVCache* cache) override;

 private:
  // `file`: the block's prefix in record names, "model.layers.3.".
  Block(const Spec& s, std::int64_t index, const std::string& file);
  at::Tensor scaled(const at::Tensor& y) const { return multiplier_ == 1 ? y : y * multiplier_; }
  at::Tensor attended(const at::Tensor& in, const Batch& batch, KVCache* cache, std::vector<at::Tensor>& carried) const;
  // The residual x + y (y may be undefined), and what the feed-forward layer sees of it.
  nn::SumAndNorm entered(const at::Tensor& x, const at::Tensor& y) const;

  Order order_;
  bool residual_after_norm_;
  double multiplier_;
  bool balanced_;
  StatesNorm norm1_;
  StatesNorm norm2_;
  TokenLayer tokens_;
  CarriedParts parts_;
  StatesNorm post_norm1_;
  StatesNorm post_norm2_;
  nn::Dropout dropout1_;
  nn::Dropout dropout2_;
  std::unique_ptr<nn::Region> attention_region_;  // null where keys and values leave the block or come into it
  nn::Region mlp_region_{*this, "mlp"};
  BlockFeedForward feed_forward_;
};

Block::Block(const Spec& s, std::int64_t index, const std::string& file)
    : Unit(cat("blocks.", index)),
      order_(order_of(s)),
      residual_after_norm_(s.residual_after_norm),
      multiplier_(s.residual_multiplier),
      balanced_(s.mixture.balanced),
      norm1_(*this, "norm1", s, in_block(file, s.names.attention_norm, s.norm_before)),
      norm2_(*this, "norm2", s, in_block(file, s.names.mlp_norm, s.norm_before && order_ != Order::after_one_norm)),
      tokens_(*this, s, index, file),
      post_norm1_(*this, "post_norm1", s, in_block(file, s.names.attention_post_norm, s.norm_after)),
      post_norm2_(*this, "post_norm2", s, in_block(file, s.names.mlp_post_norm, s.norm_after)),
      dropout1_(*this, name() + ".dropout1", s.dropout),
      dropout2_(*this, name() + ".dropout2", s.dropout),
      attention_region_(shares_keys(s) ? nullptr : std::make_unique<nn::Region>(*this, "attention")),
      feed_forward_(*this, s, index, file) {
  if (shares_keys(s)) parts_.sharing.emplace(tokens_.attention(), s);
  if (s.inputs.width > 0) parts_.input.emplace(*this, s, index, file);
  if (s.output_factor.empty()) return;
  parts_.factor = add(vector_of(file + s.output_factor, 1, Init::ones()), nn::Use::states);
  auto& record = parts_.factor->records().front();
  record.trainable = false;
  record.usage = layout::Usage::buffer;
}

at::Tensor Block::attended(const at::Tensor& in, const Batch& batch, KVCache* cache,
                           std::vector<at::Tensor>& carried) const {
  if (parts_.sharing) return parts_.sharing->forward(in, batch, cache, carried);
  return (*attention_region_)(in,
                              [this, batch, cache](const at::Tensor& x) { return tokens_.forward(x, batch, cache); });
}

// A layer that takes the states themselves has the norms within its region, which has one input.
nn::SumAndNorm Block::entered(const at::Tensor& x, const at::Tensor& y) const {
  if (!feed_forward_.norms_states()) return norm2_.forward_sum(x, y);
  const auto sum = y.defined() ? x + y : x;
  return {sum, sum};
}

Hidden Block::forward(Hidden hidden, const Batch& batch, KVCache* cache) {
  // By value: a recomputed region runs again in backward, and goes by what this forward decides.
  const auto* mixture = feed_forward_.mixture();
  const auto kept = batch.kept || !mixture ? batch.kept : std::make_shared<nn::RecomputeContext>();
  const auto feed = [this, kept](const at::Tensor& in) {
    return feed_forward_.norms_states() ? feed_forward_.forward_beside(norm2_.forward(in), in, *kept)
                                        : feed_forward_.forward(in, kept.get());
  };
  const auto in = norm1_.forward_sum(hidden.states, {});
  const auto y = attended(in.normed, batch, cache, hidden.carried);
  const auto added = dropout1_.forward(post_norm1_.forward(y), batch);
  if (order_ != Order::in_turn) {
    const auto other = feed_forward_.norms_states()      ? hidden.states
                       : order_ == Order::after_one_norm ? in.normed
                                                         : norm2_.forward(hidden.states);
    const auto fed = dropout2_.forward(post_norm2_.forward(mlp_region_(other, feed)), batch);
    hidden.states = in.sum + scaled(added) + scaled(fed);
    hidden.states = parts_.completed(hidden);
    if (mixture) mixture->count(hidden, other, batch, *kept, balanced_);
    return hidden;
  }
  const auto mid = entered(residual_after_norm_ ? in.normed : in.sum, scaled(added));
  const auto fed = dropout2_.forward(post_norm2_.forward(mlp_region_(mid.normed, feed)), batch);
  hidden.states = (residual_after_norm_ ? mid.normed : mid.sum) + scaled(fed);
  hidden.states = parts_.completed(hidden);
  if (mixture) mixture->count(hidden, mid.normed, batch, *kept, balanced_);
  return hidden;
}

class Head : public nn::Unit {
 public:
  Head(const Spec& s, const WeightPtr& matrix)
      : Unit("head"),
        multiplier_(s.logits_multiplier),
        balance_weight_(s.mixture.balance_weight),
        norm_(*this, "norm", s, s.names.norm) {
    if (s.head_values > 0) {
      values_.emplace(*this, last_part(s.names.value_head), matrix);
    } else {
      const auto bias = s.head_bias ? vector_of(s.names.head + ".bias", s.vocab_size, Init::zeros()) : nullptr;
      words_.emplace(*this, last_part(s.names.head), matrix, s.logits_cap, bias);
    }
    if (s.mixture.count > 0) balance_.emplace(*this);
  }

  Hidden forward(Hidden hidden, const Batch& batch, KVCache*) override {
    const auto x = norm_.forward(hidden.states);
    const auto scaled = multiplier_ == 1 ? x : x * multiplier_;
    hidden.states = values_ ? values_->forward(scaled, batch) : words_->forward(scaled, batch);
    hidden.carried.clear();
    if (!hidden.sums.empty()) hidden.sums = {balance_->forward(hidden.sums) * balance_weight_};
    return hidden;
  }

 private:
  double multiplier_;
  double balance_weight_;
  std::optional<nn::LoadBalance> balance_;
  StatesNorm norm_;
  std::optional<nn::VocabularyHead> words_;
  std::optional<nn::ValueHead> values_;
};

WeightPtr head_of(const Spec& s, const WeightPtr& table) {
  if (s.head_values > 0) return table_of(s, s.names.value_head, s.head_values);
  return s.tied_head ? table : table_of(s, s.names.head, s.vocab_size);
}

}  // namespace

Spec Spec::of_block(std::int64_t block) const {
  auto own = *this;
  if (own.blocks_without_window.contains(block)) own.attention.window.reset();
  if (own.blocks_without_rotary.contains(block)) {
    own.rotary.reset();
    own.attention.scale.reset();
  }
  if (vary) vary(own, block);
  return own;
}

std::vector<std::unique_ptr<nn::Unit>> units(const Spec& spec) {
  const auto table = table_of(spec, spec.names.tokens, spec.vocab_size);
  std::vector<std::unique_ptr<nn::Unit>> made;
  made.push_back(std::make_unique<Embedding>(spec, table));
  for (std::int64_t i = 0; i < spec.num_layers; ++i) made.push_back(std::make_unique<Block>(spec.of_block(i), i));
  made.push_back(std::make_unique<Head>(spec, head_of(spec, table)));
  return made;
}

}  // namespace capstan::decoder
