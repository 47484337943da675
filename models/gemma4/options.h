#pragma once
#include <capstan/config/file_keys.h>
#include <capstan/config/options.h>
#include <capstan/decoder/gemma_options.h>
#include <capstan/decoder/sharing_options.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace gemma4 {

/// transformers' tables of the blocks' rotary positions.
inline const std::string global_rope = "rope_parameters.full_attention.",
                         local_rope = "rope_parameters.sliding_attention.";

struct Gemma4Options : capstan::decoder::GemmaOptions,
                       capstan::decoder::KeySharingOptions,
                       capstan::decoder::BlockInputOptions {
  Gemma4Options() {
    global_every = 6;
    rope_theta = 1e6;
  }
  std::string model_type = "gemma4_text";
  std::optional<double> local_rope_theta;
  std::optional<double> turned_part;
  std::int64_t global_head_dim = 512;
  std::optional<std::int64_t> global_kv_heads;
  bool keys_are_values = false;
  bool routed_experts = false;
  std::optional<std::int64_t> num_experts;
  std::optional<std::int64_t> experts_per_token;
  std::optional<std::int64_t> expert_dim;

  /// Says of each block whether it is global. The last one is, whatever layer_types says.
  std::vector<bool> globals() const;
  /// How many of a global head's numbers turn.
  std::int64_t turned() const;
  static void describe(capstan::config::OptionTable<Gemma4Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

/// Numbers that are not set or do not fit each other.
void check_options(const capstan::config::Options<Gemma4Options>& options, capstan::Diagnostics& diagnostics);

}  // namespace gemma4
