#pragma once
#include <capstan/model.h>

#include <cstdint>
#include <optional>
#include <string>

namespace gpt {

/// Sizes of a GPT; `spelling`s are the names in a GPT-2 config.json.
struct GptOptions {
  std::string model_type = "gpt2";
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
  bool tie_word_embeddings = true;
  bool scale_by_layer = false;
  double init_std = 0.02;

  std::int64_t ff() const { return ff_dim.value_or(4 * hidden_size); }

  static void describe(capstan::config::OptionTable<GptOptions>& t);
  static capstan::config::Presets presets();
};

}  // namespace gpt
