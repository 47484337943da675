#include "my_plugin.h"

#include <ATen/ATen.h>
#include <capstan/base/text.h>

namespace my_plugin_plugin {

using capstan::layout::Init;

namespace {

constexpr double init_std = 0.02;
constexpr double epsilon = 1e-5;

}  // namespace

void MyPluginOptions::describe(capstan::config::OptionTable<MyPluginOptions>& t) {
  t.add("vocab_size", &MyPluginOptions::vocab_size).min(1).doc("number of token ids");
  t.add("hidden_size", &MyPluginOptions::hidden_size).min(1).doc("width of the residual stream");
  t.add("num_layers", &MyPluginOptions::num_layers).min(1).doc("number of blocks");
  t.add("num_heads", &MyPluginOptions::num_heads).min(1).doc("attention heads; must divide hidden_size");
  t.add("seq_length", &MyPluginOptions::seq_length).min(1).doc("learned positions: the longest sequence");
}

void MyPlugin::check(capstan::Diagnostics& diagnostics) const {
  if (options_->hidden_size % options_->num_heads == 0) return;
  diagnostics.add(options_.where(&MyPluginOptions::num_heads),
                  capstan::cat("model.num_heads ", options_->num_heads, " does not divide model.hidden_size ",
                               options_->hidden_size),
                  "change one of the two");
}

nn::ModelFacts MyPlugin::facts() const {
  nn::ModelFacts facts;
  facts.vocab_size = options_->vocab_size;
  facts.max_positions = options_->seq_length;
  facts.hidden_size = options_->hidden_size;
  facts.num_layers = options_->num_layers;
  facts.num_heads = options_->num_heads;
  return facts;
}

std::vector<std::unique_ptr<nn::Unit>> MyPlugin::build() const {
  std::vector<std::unique_ptr<nn::Unit>> units;
  units.push_back(std::make_unique<MyPluginEmbedding>(*options_));
  for (std::int64_t i = 0; i < options_->num_layers; ++i)
    units.push_back(std::make_unique<MyPluginBlock>(*options_, i));
  units.push_back(std::make_unique<MyPluginHead>(*options_));
  return units;
}

// 6 for each weight of a matrix product, and causal attention's two products, forward and backward.
double MyPlugin::flops_per_token(std::int64_t sequence_length) const {
  const auto h = static_cast<double>(options_->hidden_size);
  const auto layers = static_cast<double>(options_->num_layers);
  const double matrices = layers * 12 * h * h + static_cast<double>(options_->vocab_size) * h;
  return 6 * matrices + 6 * layers * h * static_cast<double>(sequence_length);
}

// In a file every record is the tensor of the same name.
capstan::layout::FileMap MyPlugin::file_map() const {
  capstan::layout::FileMap map;
  for (const auto& unit : build()) {
    for (const auto& weight : unit->weights()) {
      for (const auto& record : weight->records()) map.tensors[record.name].name = record.name;
    }
  }
  return map;
}

MyPluginEmbedding::MyPluginEmbedding(const MyPluginOptions& o)
    : Unit("embedding"),
      tokens_(*this, "tokens", nn::WeightSplit::vocabulary,
              add_record("tokens.weight", {o.vocab_size, o.hidden_size}, Init::normal(init_std), true)),
      positions_(*this, "positions", nn::WeightSplit::none,
                 add_record("positions.weight", {o.seq_length, o.hidden_size}, Init::normal(init_std), true)) {}

nn::Hidden MyPluginEmbedding::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) {
  hidden.states = tokens_.forward(batch.tokens) + positions_.forward(batch.positions);
  return hidden;
}

nn::LayerNorm MyPluginBlock::norm(const std::string& layer, std::int64_t size) {
  return {*this, layer, add_record(name() + "." + layer + ".weight", {size}, Init::ones(), false),
          add_record(name() + "." + layer + ".bias", {size}, Init::zeros(), false), epsilon};
}

nn::WeightPtr MyPluginBlock::matrices(const std::vector<std::string>& layers, std::int64_t out, std::int64_t in) {
  std::vector<capstan::layout::Param> records;
  for (const auto& layer : layers)
    records.push_back(nn::record(name() + "." + layer + ".weight", {out, in}, Init::normal(init_std), true));
  return add_group(std::move(records));
}

namespace {

// The attention's sizes; a strategy that splits it leaves a rank some of the heads.
nn::Attention::Kind attention_kind(const MyPluginOptions& o, std::int64_t index) {
  nn::Attention::Kind kind;
  kind.spec.heads = {o.num_heads, o.num_heads, o.hidden_size / o.num_heads};
  kind.layer = static_cast<std::size_t>(index);
  return kind;
}

}  // namespace

MyPluginBlock::MyPluginBlock(const MyPluginOptions& o, std::int64_t index)
    : Unit("blocks." + std::to_string(index)),
      norm1_(norm("norm1", o.hidden_size)),
      norm2_(norm("norm2", o.hidden_size)),
      attention_(*this, attention_kind(o, index),
                 {{matrices({"q", "k", "v"}, o.hidden_size, o.hidden_size), nullptr},
                  {matrices({"projection"}, o.hidden_size, o.hidden_size), nullptr},
                  nullptr,
                  nullptr}),
      mlp_(*this, {nn::Activation::gelu, /*gated=*/false},
           {matrices({"up"}, 4 * o.hidden_size, o.hidden_size), nullptr},
           {matrices({"down"}, o.hidden_size, 4 * o.hidden_size), nullptr}) {}

nn::Hidden MyPluginBlock::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) {
  const auto x = hidden.states;
  const auto y = x + attention_.forward(norm1_.forward(x), batch, cache);
  hidden.states = y + mlp_.forward(norm2_.forward(y));
  return hidden;
}

MyPluginHead::MyPluginHead(const MyPluginOptions& o)
    : Unit("head"),
      norm_(*this, "norm", add_record("norm.weight", {o.hidden_size}, Init::ones(), false),
            add_record("norm.bias", {o.hidden_size}, Init::zeros(), false), epsilon),
      head_(*this, "head", add_record("head.weight", {o.vocab_size, o.hidden_size}, Init::normal(init_std), true)) {}

nn::Hidden MyPluginHead::forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache*) {
  hidden.states = head_.forward(norm_.forward(hidden.states), batch);
  return hidden;
}

}  // namespace my_plugin_plugin

CAPSTAN_MODEL("my_plugin", "0.1.0", "a small transformer", my_plugin_plugin::MyPlugin,
              my_plugin_plugin::MyPluginOptions)
