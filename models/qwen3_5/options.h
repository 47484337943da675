#pragma once
#include <capstan/config/file_keys.h>
#include <capstan/config/options.h>
#include <capstan/decoder/rotary_options.h>

#include <cstdint>
#include <string>
#include <vector>

#include "hybrid_options.h"

namespace qwen3_5 {

struct Qwen35Options : capstan::decoder::RotaryOptions, capstan::decoder::RouterOptions, HybridOptions {
  std::string model_type = "qwen3_5_text";
  double rotary_part = 0.25;
  bool attention_bias = false;
  std::int64_t expert_dim = 176;
  std::int64_t shared_expert_dim = 176;

  bool has_experts() const { return model_type == "qwen3_5_moe_text"; }
  /// A head's numbers that turn.
  std::int64_t turned() const { return static_cast<std::int64_t>(static_cast<double>(dim()) * rotary_part); }
  static void describe(capstan::config::OptionTable<Qwen35Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

}  // namespace qwen3_5
