#pragma once
#include <capstan/model.h>

#include <cstdint>
#include <optional>
#include <string>

namespace mixtral {

/// Sizes of a Mixtral; `spelling`s are the names in a config.json.
struct MixtralOptions {
  std::string model_type = "mixtral";
  std::int64_t vocab_size = 258;
  std::int64_t hidden_size = 128;
  std::int64_t num_layers = 2;
  std::int64_t num_heads = 4;
  std::optional<std::int64_t> num_kv_heads;
  std::optional<std::int64_t> head_dim;
  std::int64_t ff_dim = 352;
  std::int64_t num_experts = 8;
  std::int64_t experts_per_token = 2;
  std::int64_t seq_length = 2048;
  double rms_norm_epsilon = 1e-5;
  double rope_theta = 1e6;
  std::string rope_type = "default";
  std::string activation = "silu";
  bool tie_word_embeddings = false;
  double attention_dropout = 0;
  bool router_aux_loss = false;
  double router_aux_loss_coef = 0.001;
  double router_jitter_noise = 0;
  std::optional<std::int64_t> sliding_window;
  double init_std = 0.02;

  std::int64_t kv_heads() const { return num_kv_heads.value_or(num_heads); }
  std::int64_t dim() const { return head_dim.value_or(hidden_size / num_heads); }
  /// The window that attention would be limited to; none where the model has none.
  std::optional<std::int64_t> window() const {
    return sliding_window && *sliding_window < seq_length ? sliding_window : std::nullopt;
  }

  static void describe(capstan::config::OptionTable<MixtralOptions>& t);
  static capstan::config::Presets presets();
};

}  // namespace mixtral
