#include "options.h"

namespace gpt {

void GptOptions::describe(capstan::config::OptionTable<GptOptions>& t) {
  t.add("model_type", &GptOptions::model_type).choices({"gpt2"}).doc("family of the config.json");
  t.add("vocab_size", &GptOptions::vocab_size).min(1).doc("number of token ids");
  t.add("hidden_size", &GptOptions::hidden_size).min(1).spelling("n_embd").doc("width of the residual stream");
  t.add("num_layers", &GptOptions::num_layers).min(1).spelling("n_layer").doc("number of blocks");
  t.add("num_heads", &GptOptions::num_heads).min(1).spelling("n_head").doc("attention heads; must divide hidden_size");
  t.add("ff_dim", &GptOptions::ff_dim)
      .min(1)
      .spelling("n_inner")
      .doc("width of the feed-forward layer; 4 x hidden_size when not set");
  t.add("seq_length", &GptOptions::seq_length)
      .min(1)
      .spelling("n_positions")
      .doc("learned positions: the longest sequence");
  t.add("dropout", &GptOptions::dropout)
      .min(0)
      .max(0.99)
      .spelling("resid_pdrop")
      .doc("dropout behind attention and feed-forward");
  t.add("embedding_dropout", &GptOptions::embedding_dropout)
      .min(0)
      .max(0.99)
      .spelling("embd_pdrop")
      .doc("dropout behind the embedding; `dropout` when not set");
  t.add("attention_dropout", &GptOptions::attention_dropout)
      .min(0)
      .max(0.99)
      .spelling("attn_pdrop")
      .doc("dropout on attention probabilities, which then take the unfused path; `dropout` when not set");
  t.add("activation", &GptOptions::activation)
      .choices({"gelu_new", "gelu"})
      .spelling("activation_function")
      .doc("gelu_new: the tanh approximation that GPT-2 uses; gelu: the exact one");
  t.add("layer_norm_epsilon", &GptOptions::layer_norm_epsilon).above(0).doc("added to the variance in layer norms");
  t.add("tie_word_embeddings", &GptOptions::tie_word_embeddings).doc("the head is the embedding");
  t.add("scale_by_layer", &GptOptions::scale_by_layer)
      .spelling("scale_attn_by_inverse_layer_idx")
      .doc("attention scores divided by the layer's number in a config.json; only false is supported");
  t.add("init_std", &GptOptions::init_std)
      .above(0)
      .spelling("initializer_range")
      .doc("standard deviation of the initial weights");
}

// The published config.json files' numbers.
capstan::config::Presets GptOptions::presets() {
  const auto sizes = [](std::int64_t hidden, std::int64_t layers, std::int64_t heads) {
    return capstan::config::Preset{{"vocab_size", std::int64_t{50257}},
                                   {"hidden_size", hidden},
                                   {"num_layers", layers},
                                   {"num_heads", heads},
                                   {"seq_length", std::int64_t{1024}}};
  };
  return {{"gpt2", sizes(768, 12, 12)},
          {"gpt2-medium", sizes(1024, 24, 16)},
          {"gpt2-large", sizes(1280, 36, 20)},
          {"gpt2-xl", sizes(1600, 48, 25)}};
}

}  // namespace gpt
