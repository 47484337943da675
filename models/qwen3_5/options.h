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
  Qwen35Options() { partial_rotary_factor = 0.25; }
  std::string model_type = "qwen3_5_text";
  bool attention_bias = false;
  std::int64_t expert_dim = 176;
  std::int64_t shared_expert_dim = 176;
  bool experts_together = false;

  bool is_next() const { return model_type == "qwen3_next"; }
  bool has_experts() const { return model_type == "qwen3_5_moe_text" || is_next(); }
  static void describe(capstan::config::OptionTable<Qwen35Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

}  // namespace qwen3_5
