#pragma once
#include <capstan/model.h>

#include <cstdint>
#include <string>

namespace gpt {

/// Sizes of a GPT; `spelling`s are the names in a GPT-2 config.json.
struct GptOptions {
  std::int64_t vocab_size = 258;
  std::int64_t hidden_size = 128;
  std::int64_t num_layers = 2;
  std::int64_t num_heads = 4;
  std::optional<std::int64_t> ff_dim;
  std::int64_t seq_length = 512;
  double dropout = 0.1;
  std::optional<double> embedding_dropout;
  std::optional<double> attention_dropout;
  std::string activation = "gelu_new";
  double layer_norm_epsilon = 1e-5;
  double init_std = 0.02;

  std::int64_t ff() const { return ff_dim.value_or(4 * hidden_size); }

  static void describe(capstan::config::OptionTable<GptOptions>& t) {
    t.add("vocab_size", &GptOptions::vocab_size).min(1).doc("number of token ids");
    t.add("hidden_size", &GptOptions::hidden_size).min(1).spelling("n_embd").doc("width of the residual stream");
    t.add("num_layers", &GptOptions::num_layers).min(1).spelling("n_layer").doc("number of blocks");
    t.add("num_heads", &GptOptions::num_heads)
        .min(1)
        .spelling("n_head")
        .doc("attention heads; must divide hidden_size");
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
    t.add("init_std", &GptOptions::init_std)
        .above(0)
        .spelling("initializer_range")
        .doc("standard deviation of the initial weights");
  }
};

}  // namespace gpt
