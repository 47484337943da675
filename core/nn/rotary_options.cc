#include <capstan/nn/rotary_options.h>

namespace capstan::nn {

DecoderSpec RotaryOptions::spec() const {
  RotaryScaling scaling;
  if (rope_type == "linear") scaling.kind = RotaryScaling::Kind::linear;
  if (rope_type == "llama3") scaling.kind = RotaryScaling::Kind::llama3;
  scaling.factor = rope_factor.value_or(1);
  scaling.low_frequency_factor = rope_low_frequency_factor;
  scaling.high_frequency_factor = rope_high_frequency_factor;
  scaling.original_length = rope_original_length;
  DecoderSpec made;
  made.vocab_size = vocab_size;
  made.hidden_size = hidden_size;
  made.num_layers = num_layers;
  made.max_positions = seq_length;
  made.ff_dim = ff_dim;
  made.heads = {num_heads, kv_heads(), dim()};
  made.norm_epsilon = rms_norm_epsilon;
  made.rotary = Rotary(dim(), rope_theta, scaling);
  made.tied_head = tie_word_embeddings;
  made.attention_dropout = attention_dropout;
  made.init_std = init_std;
  return made;
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

void describe_rotary_scaling_files(const RotaryOptions& options, layout::FileMap& map) {
  if (options.rope_type == "llama3") {
    // Files say how long the scaled model may be; where only a shorter length is asked for, it is not that.
    if (options.seq_length <= options.rope_original_length) {
      const auto longest = static_cast<double>(options.rope_original_length) * *options.rope_factor;
      map.more["max_position_embeddings"] = std::to_string(static_cast<std::int64_t>(longest));
    }
    return;
  }
  map.left_out.insert(map.left_out.end(),
                      {"rope_low_frequency_factor", "rope_high_frequency_factor", "rope_original_length"});
  if (options.rope_type == "default") map.left_out.insert(map.left_out.end(), {"rope_type", "rope_factor"});
}

}  // namespace capstan::nn
