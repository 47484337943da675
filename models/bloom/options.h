#pragma once
#include <capstan/model.h>

#include <cstdint>
#include <string>

namespace bloom {

/// Sizes of a BLOOM; `spelling`s are the names in a config.json.
struct BloomOptions {
  std::string model_type = "bloom";
  std::int64_t vocab_size = 258;
  std::int64_t hidden_size = 128;
  std::int64_t num_layers = 2;
  std::int64_t num_heads = 4;
  std::int64_t seq_length = 2048;
  double dropout = 0;
  double attention_dropout = 0;
  double layer_norm_epsilon = 1e-5;
  bool residual_after_norm = false;
  bool tie_word_embeddings = true;
  double init_std = 0.02;

  std::int64_t ff() const { return 4 * hidden_size; }

  static void describe(capstan::config::OptionTable<BloomOptions>& t);
  static capstan::config::Presets presets();
};

}  // namespace bloom
