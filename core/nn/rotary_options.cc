#include <capstan/nn/rotary_options.h>

#include <cmath>

namespace capstan::nn {

RotaryScaling RotaryOptions::scaling() const {
  RotaryScaling made;
  if (rope_type == "linear") made.kind = RotaryScaling::Kind::linear;
  if (rope_type == "llama3") made.kind = RotaryScaling::Kind::llama3;
  if (rope_type == "yarn") made.kind = RotaryScaling::Kind::yarn;
  made.factor = rope_factor.value_or(1);
  made.low_frequency_factor = rope_low_frequency_factor;
  made.high_frequency_factor = rope_high_frequency_factor;
  made.original_length = rope_original_length;
  made.fast_turns = rope_fast_turns.value_or(made.fast_turns);
  made.slow_turns = rope_slow_turns.value_or(made.slow_turns);
  made.attention_factor = rope_attention_factor;
  return made;
}

DecoderSpec RotaryOptions::spec() const {
  DecoderSpec made;
  made.vocab_size = vocab_size;
  made.hidden_size = hidden_size;
  made.num_layers = num_layers;
  made.max_positions = seq_length;
  made.ff_dim = ff_dim;
  made.heads = {num_heads, kv_heads(), dim()};
  made.norm_epsilon = rms_norm_epsilon;
  made.rotary = Rotary(dim(), rope_theta, scaling());
  if (const auto factor = scaling().score_factor(); factor != 1)
    made.scores.scale = factor / std::sqrt(static_cast<double>(dim()));
  made.tied_head = tie_word_embeddings;
  made.attention_dropout = attention_dropout;
  made.init_std = init_std;
  return made;
}

std::set<std::int64_t> WindowOptions::blocks_without_window(std::int64_t layers) const {
  std::set<std::int64_t> blocks;
  for (std::int64_t i = 0; i < layers; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const bool is_listed = at < layer_types.size();
    if (is_listed ? layer_types[at] != "sliding_attention" : i < max_window_layers) blocks.insert(i);
  }
  return blocks;
}

config::Preset rotary_preset(const std::string& model_type, const RotarySizes& sizes, double epsilon, double theta,
                             bool tied) {
  return {{"model_type", model_type},   {"vocab_size", sizes.vocab},  {"hidden_size", sizes.hidden},
          {"num_layers", sizes.layers}, {"num_heads", sizes.heads},   {"num_kv_heads", sizes.kv_heads},
          {"ff_dim", sizes.ff},         {"seq_length", sizes.length}, {"rms_norm_epsilon", epsilon},
          {"rope_theta", theta},        {"tie_word_embeddings", tied}};
}

void describe_rotary_files(const RotaryOptions& options, layout::FileMap& map) {
  map.ignored.emplace_back(".rotary_emb.inv_freq");
  map.more["num_key_value_heads"] = std::to_string(options.kv_heads());
  map.more["head_dim"] = std::to_string(options.dim());
}

namespace {

// Options that the file of such a model does not have.
std::vector<std::string> scaling_options_left_out(const RotaryOptions& options) {
  const bool is_llama3 = options.rope_type == "llama3", is_yarn = options.rope_type == "yarn";
  std::vector<std::string> names;
  const auto leave_out = [&](bool condition, const std::string& name) {
    if (condition) names.push_back(name);
  };
  leave_out(!is_llama3, "rope_low_frequency_factor");
  leave_out(!is_llama3, "rope_high_frequency_factor");
  leave_out(!is_yarn || !options.rope_fast_turns, "rope_fast_turns");
  leave_out(!is_yarn || !options.rope_slow_turns, "rope_slow_turns");
  leave_out(!is_yarn || !options.rope_attention_factor, "rope_attention_factor");
  leave_out(!is_llama3 && !is_yarn, "rope_original_length");
  leave_out(options.rope_type == "default", "rope_type");
  leave_out(options.rope_type == "default", "rope_factor");
  return names;
}

}  // namespace

void describe_rotary_scaling_files(const RotaryOptions& options, layout::FileMap& map) {
  const auto names = scaling_options_left_out(options);
  map.left_out.insert(map.left_out.end(), names.begin(), names.end());
  // Files say how long the scaled model may be; where only a shorter length is asked for, it is not that.
  const bool is_short = options.rope_type == "llama3" && options.seq_length <= options.rope_original_length;
  if (options.rope_type != "yarn" && !is_short) return;
  const auto longest = static_cast<double>(options.rope_original_length) * *options.rope_factor;
  map.more["max_position_embeddings"] = std::to_string(static_cast<std::int64_t>(longest));
}

void describe_window_files(const RotaryOptions& options, const WindowOptions& windows, bool has_them,
                           layout::FileMap& map) {
  map.left_out.emplace_back("layer_types");
  if (!has_them) map.left_out.emplace_back("max_window_layers");
  if (!has_them || !windows.use_sliding_window) map.left_out.emplace_back("use_sliding_window");
  if (!has_them) return;
  const bool is_used = windows.use_sliding_window.value_or(false) && options.sliding_window;
  const auto without = windows.blocks_without_window(options.num_layers);
  std::string types;
  for (std::int64_t i = 0; i < options.num_layers; ++i) {
    const bool slides = is_used && !without.contains(i);
    types += cat(types.empty() ? "[" : ", ", slides ? "\"sliding_attention\"" : "\"full_attention\"");
  }
  map.more["layer_types"] = types + "]";
}

}  // namespace capstan::nn
