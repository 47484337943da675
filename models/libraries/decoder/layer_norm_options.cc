#include <capstan/base/text.h>
#include <capstan/decoder/layer_norm_options.h>

namespace capstan::decoder {

Spec LayerNormOptions::spec() const {
  Spec made;
  made.vocab_size = vocab_size;
  made.hidden_size = hidden_size;
  made.num_layers = num_layers;
  made.max_positions = seq_length;
  made.ff_dim = 4 * hidden_size;
  made.attention.heads = {num_heads, num_heads, hidden_size / num_heads};
  made.norm = Spec::Norm::layer;
  made.norm_epsilon = layer_norm_epsilon;
  made.qkv_bias = made.projection_bias = made.mlp_bias = true;
  made.mlp = {nn::Activation::gelu_tanh, false};
  made.tied_head = tie_word_embeddings;
  made.dropout = dropout;
  made.init_std = init_std;
  made.names.block = "h.";
  made.names.norm = "ln_f";
  made.names.prefix = "transformer.";
  return made;
}

void describe_layer_norm_sizes(config::OptionTable<LayerNormOptions> table, const LayerNormSpellings& spellings) {
  table.add("vocab_size", &LayerNormOptions::vocab_size).min(1).doc("number of token ids");
  const auto spell = [](auto option, const std::string& key, const std::vector<std::string>& names) {
    for (const auto& name : names) {
      if (!name.empty() && name != key) option.spelling(name);
    }
  };
  spell(table.add("hidden_size", &LayerNormOptions::hidden_size).min(1).doc("width of the residual stream"),
        "hidden_size", {spellings.hidden});
  spell(table.add("num_layers", &LayerNormOptions::num_layers).min(1).max(4096).doc("number of blocks"), "num_layers",
        spellings.layers);
  spell(table.add("num_heads", &LayerNormOptions::num_heads).min(1).doc("attention heads; must divide hidden_size"),
        "num_heads", spellings.heads);
}

void describe_layer_norm_rest(config::OptionTable<LayerNormOptions> table, const std::string& epsilon) {
  auto added = table.add("layer_norm_epsilon", &LayerNormOptions::layer_norm_epsilon)
                   .above(0)
                   .doc("added to the variance in layer norms");
  if (!epsilon.empty()) added.spelling(epsilon);
  table.add("tie_word_embeddings", &LayerNormOptions::tie_word_embeddings).doc("the head is the embedding");
  table.add("init_std", &LayerNormOptions::init_std)
      .above(0)
      .spelling("initializer_range")
      .doc("standard deviation of the initial weights");
}

config::Preset layer_norm_preset(std::int64_t vocab, std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
  return {{"vocab_size", vocab}, {"hidden_size", hidden}, {"num_layers", layers}, {"num_heads", heads}};
}

config::Preset layer_norm_defaults(const config::Preset& more) {
  config::Preset out{{"dropout", 0.0}, {"attention_dropout", 0.0}, {"layer_norm_epsilon", 1e-5}, {"init_std", 0.02}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

config::OptionBuilder as_dropout(config::OptionBuilder option) { return option.min(0).max(0.99); }

void check_heads(const config::Options<LayerNormOptions>& options, Diagnostics& diagnostics) {
  const auto& o = *options;
  if (o.hidden_size % o.num_heads == 0) return;
  diagnostics.add(
      options.where(&LayerNormOptions::hidden_size),
      cat("model.hidden_size ", o.hidden_size, " is not divisible by model.num_heads ", o.num_heads),
      cat("use hidden_size ", (o.hidden_size / o.num_heads + 1) * o.num_heads, " or another number of heads"));
}

}  // namespace capstan::decoder
