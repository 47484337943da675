#pragma once
#include <capstan/model.h>

#include <cstdint>
#include <optional>
#include <string>

namespace llama {

/// Sizes of a Llama, Llama 2 or 3, Mistral or Qwen 2; `spelling`s are the names in a config.json.
struct LlamaOptions {
  std::string model_type = "llama";
  std::int64_t vocab_size = 258;
  std::int64_t hidden_size = 128;
  std::int64_t num_layers = 2;
  std::int64_t num_heads = 4;
  std::optional<std::int64_t> num_kv_heads;
  std::optional<std::int64_t> head_dim;
  std::int64_t ff_dim = 352;
  std::int64_t seq_length = 2048;
  double rms_norm_epsilon = 1e-6;
  double rope_theta = 10000;
  std::string rope_type = "default";
  std::optional<double> rope_factor;
  double rope_low_frequency_factor = 1;
  double rope_high_frequency_factor = 4;
  std::int64_t rope_original_length = 8192;
  std::string activation = "silu";
  bool attention_bias = false;
  bool mlp_bias = false;
  bool tie_word_embeddings = false;
  double attention_dropout = 0;
  std::optional<std::int64_t> sliding_window;
  std::optional<bool> use_sliding_window;
  double init_std = 0.02;

  std::int64_t kv_heads() const { return num_kv_heads.value_or(num_heads); }
  std::int64_t dim() const { return head_dim.value_or(hidden_size / num_heads); }
  /// Qwen 2 has biases on q, k and v alone and no key for them.
  bool qkv_bias() const { return attention_bias || model_type == "qwen2"; }
  /// The window that attention would be limited to; none where the model has none or does not use it.
  std::optional<std::int64_t> window() const {
    const bool used = use_sliding_window.value_or(model_type != "qwen2");
    return used && sliding_window && *sliding_window < seq_length ? sliding_window : std::nullopt;
  }

  static void describe(capstan::config::OptionTable<LlamaOptions>& t);
  static capstan::config::Presets presets();
};

}  // namespace llama
