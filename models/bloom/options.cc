#include "options.h"

namespace bloom {

void BloomOptions::describe(capstan::config::OptionTable<BloomOptions>& t) {
  t.add("model_type", &BloomOptions::model_type).choices({"bloom"}).doc("family of the config.json");
  t.add("vocab_size", &BloomOptions::vocab_size).min(1).doc("number of token ids");
  t.add("hidden_size", &BloomOptions::hidden_size).min(1).spelling("n_embed").doc("width of the residual stream");
  t.add("num_layers", &BloomOptions::num_layers)
      .min(1)
      .spelling("n_layer")
      .spelling("num_hidden_layers")
      .doc("number of blocks");
  t.add("num_heads", &BloomOptions::num_heads)
      .min(1)
      .spelling("n_head")
      .spelling("num_attention_heads")
      .doc("attention heads; must divide hidden_size");
  t.add("seq_length", &BloomOptions::seq_length)
      .min(1)
      .doc("the longest sequence; published models were trained on 2048, ALiBi itself has no limit");
  t.add("dropout", &BloomOptions::dropout)
      .min(0)
      .max(0.99)
      .spelling("hidden_dropout")
      .doc("dropout behind attention and feed-forward");
  t.add("attention_dropout", &BloomOptions::attention_dropout)
      .min(0)
      .max(0.99)
      .doc("dropout on attention probabilities, which then take the unfused path");
  t.add("layer_norm_epsilon", &BloomOptions::layer_norm_epsilon).above(0).doc("added to the variance in layer norms");
  t.add("residual_after_norm", &BloomOptions::residual_after_norm)
      .spelling("apply_residual_connection_post_layernorm")
      .doc("residuals start behind the layer norms instead of in front of them");
  t.add("tie_word_embeddings", &BloomOptions::tie_word_embeddings).doc("the head is the embedding");
  t.add("init_std", &BloomOptions::init_std)
      .above(0)
      .spelling("initializer_range")
      .doc("standard deviation of the initial weights");
}

// The published config.json files' numbers.
capstan::config::Presets BloomOptions::presets() {
  const auto sizes = [](std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
    return capstan::config::Preset{
        {"vocab_size", std::int64_t{250880}}, {"hidden_size", hidden}, {"num_layers", layers}, {"num_heads", heads}};
  };
  return {{"bloom-560m", sizes(1024, 24, 16)},
          {"bloom-1b1", sizes(1536, 24, 16)},
          {"bloom-1b7", sizes(2048, 24, 16)},
          {"bloom-3b", sizes(2560, 30, 32)},
          {"bloom-7b1", sizes(4096, 30, 32)}};
}

}  // namespace bloom
