// A transformer with the cases that a strategy must handle: a tied table, a fused group, biases, norms, odd sizes,
// dropout, layers that may be split and regions that may be recomputed.
#include <ATen/ATen.h>
#include <capstan/nn/model.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/label_log_probabilities.h>
#include <capstan/testing.h>

#include <utility>

#include "testing/tiny.h"

namespace capstan::testing {
namespace {

using layout::Init;

constexpr std::int64_t positions = 24;
constexpr std::int64_t width = 12;
constexpr std::int64_t head_count = 3;
constexpr std::int64_t inner = 22;
constexpr std::int64_t blocks = 2;

struct ModelOptions {
  double dropout = 0;
  std::int64_t vocab_size = 261;
  static void describe(config::OptionTable<ModelOptions>& t) {
    t.add("dropout", &ModelOptions::dropout).min(0).max(0.99).doc("after the embedding and in each block");
    t.add("vocab_size", &ModelOptions::vocab_size).min(1).doc("number of token ids");
  }
};

class Embedding : public nn::Unit {
 public:
  Embedding(const nn::WeightPtr& table, double dropout)
      : Unit("embedding"),
        tokens_(*this, "tokens", nn::WeightSplit::vocabulary, table),
        positions_(*this, "positions", nn::WeightSplit::none,
                   add_record("positions.weight", {positions, width}, Init::normal(0.1), true)),
        dropout_(*this, "embedding.dropout", dropout) {}

  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) override {
    hidden.states = dropout_.forward(tokens_.forward(batch.tokens) + positions_.forward(batch.positions), batch);
    return hidden;
  }

 private:
  nn::Embedding tokens_;
  nn::Embedding positions_;
  nn::Dropout dropout_;
};

// Attention and feed-forward in parallel after one norm (Wang and Komatsuzaki 2021).
class Block : public nn::Unit {
 public:
  Block(std::size_t index, double dropout)
      : Unit("blocks." + std::to_string(index)),
        index_(index),
        norm_(*this, "norm", vector("norm.weight", width, Init::ones()), vector("norm.bias", width, Init::zeros()),
              1e-5),
        qkv_(*this, "linear_qkv", nn::WeightSplit::columns, fused("weight", {width, width}), fused("bias", {width})),
        projection_(*this, "linear_proj", nn::WeightSplit::rows, matrix("proj.weight", {width, width}),
                    vector("proj.bias", width, Init::zeros())),
        up_(*this, "linear_fc1", nn::WeightSplit::columns, matrix("up.weight", {inner, width}),
            vector("up.bias", inner, Init::zeros())),
        down_(*this, "linear_fc2", nn::WeightSplit::rows, matrix("down.weight", {width, inner}),
              vector("down.bias", width, Init::zeros())),
        attention_dropout_(*this, name() + ".attention.dropout", dropout),
        dropout_(*this, name() + ".dropout", dropout) {}

  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override {
    const auto x = norm_.forward(hidden.states);
    const auto attended =
        attention_(x, [this, batch, cache](const at::Tensor& in) { return attend(in, batch, cache); });
    const auto fed = mlp_(x, [this](const at::Tensor& in) { return down_.forward(at::gelu(up_.forward(in))); });
    hidden.states = hidden.states + dropout_.forward(attended + fed, batch);
    return hidden;
  }

 private:
  at::Tensor attend(const at::Tensor& x, const nn::Batch& batch, nn::KVCache* cache) const {
    const auto qkv = qkv_.forward(x).chunk(3, -1);
    const auto split = [&](const at::Tensor& t) {
      return t.view({t.size(0), t.size(1), -1, width / head_count}).transpose(1, 2);
    };
    const auto y =
        nn::causal_attention(split(qkv[0]), split(qkv[1]), split(qkv[2]), attention_dropout_, batch, cache, index_);
    return projection_.forward(y.transpose(1, 2).flatten(2));
  }
  nn::WeightPtr vector(const std::string& suffix, std::int64_t size, Init init) {
    return add_record(name() + "." + suffix, {size}, init, false);
  }
  nn::WeightPtr matrix(const std::string& suffix, const std::vector<std::int64_t>& shape) {
    return add_record(name() + "." + suffix, shape, Init::normal(0.1), true);
  }
  nn::WeightPtr fused(const std::string& suffix, const std::vector<std::int64_t>& shape) {
    const bool is_matrix = shape.size() > 1;
    std::vector<layout::Param> records;
    for (const char* part : {".q.", ".k.", ".v."}) {
      records.push_back(
          nn::record(name() + part + suffix, shape, is_matrix ? Init::normal(0.1) : Init::zeros(), is_matrix));
    }
    return add(std::make_shared<nn::Weight>(std::move(records)));
  }

  std::size_t index_;
  nn::LayerNorm norm_;
  nn::Linear qkv_;
  nn::Linear projection_;
  nn::Linear up_;
  nn::Linear down_;
  nn::Dropout attention_dropout_;
  nn::Dropout dropout_;
  nn::Region attention_{*this, "attention"};
  nn::Region mlp_{*this, "mlp"};
};

class Head : public nn::Unit {
 public:
  explicit Head(const nn::WeightPtr& table)
      : Unit("head"),
        norm_(*this, "norm", add_record("norm.weight", {width}, Init::ones(), false),
              add_record("norm.bias", {width}, Init::zeros(), false), 1e-5),
        table_(add(table)) {}

  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) override {
    const auto x = norm_.forward(hidden.states);
    if (batch.pass.output == nn::HeadOutput::log_probabilities) {
      hidden.states = log_probabilities(x.flatten(0, 1), batch);
    } else if (batch.labels.defined()) {
      hidden.states = ops::chunked_linear_cross_entropy(x.flatten(0, 1), table_->value(), batch.labels.flatten(), 64);
    } else {
      const auto last = batch.last.view({-1, 1, 1}).expand({-1, 1, width});
      hidden.states = at::linear(x.gather(1, last).squeeze(1), table_->value());
    }
    return hidden;
  }

 private:
  at::Tensor log_probabilities(at::Tensor rows, const nn::Batch& batch) const {
    auto labels = batch.labels.flatten();
    if (batch.loss_rows.defined()) {
      rows = rows.index_select(0, batch.loss_rows);
      labels = labels.index_select(0, batch.loss_rows);
    }
    return ops::chunked_label_log_probabilities(rows, table_->value(), labels, 64);
  }

  nn::LayerNorm norm_;
  nn::WeightPtr table_;
};

class TinyModel : public nn::Model {
 public:
  explicit TinyModel(config::Options<ModelOptions> options) : options_(std::move(options)) {}
  void check(Diagnostics&) const override {}

  nn::ModelFacts facts() const override {
    nn::ModelFacts facts;
    facts.vocab_size = options_->vocab_size;
    facts.max_positions = positions;
    facts.hidden_size = width;
    facts.num_layers = blocks;
    facts.num_heads = head_count;
    facts.attention_dropout = options_->dropout > 0;
    facts.outputs = {nn::HeadOutput::loss_sum, nn::HeadOutput::log_probabilities, nn::HeadOutput::last_logits};
    return facts;
  }

  std::vector<std::unique_ptr<nn::Unit>> build() const override {
    const auto table = std::make_shared<nn::Weight>(std::vector<layout::Param>{
        nn::record("tokens.weight", {options_->vocab_size, width}, Init::normal(0.1), true)});
    std::vector<std::unique_ptr<nn::Unit>> units;
    units.push_back(std::make_unique<Embedding>(table, options_->dropout));
    for (std::size_t i = 0; i < blocks; ++i) units.push_back(std::make_unique<Block>(i, options_->dropout));
    units.push_back(std::make_unique<Head>(table));
    return units;
  }

  // 6 for each weight of a matrix product, 6·S·width a layer for causal attention (Chowdhery et al. 2022).
  double flops_per_token(std::int64_t sequence_length) const override {
    const auto matrices = blocks * (4 * width * width + 2 * width * inner) + options_->vocab_size * width;
    return 6 * static_cast<double>(matrices + blocks * width * sequence_length);
  }
  layout::FileMap file_map() const override { return {}; }

 private:
  config::Options<ModelOptions> options_;
};

}  // namespace

plugin::Registration tiny_model() { return type<nn::Model, TinyModel, ModelOptions>("model", "tiny"); }

}  // namespace capstan::testing
