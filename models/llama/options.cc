#include "options.h"

#include <capstan/nn/rotary_options.h>

namespace llama {

using capstan::config::OptionTable;

namespace {

void describe_rope(OptionTable<LlamaOptions>& t) {
  capstan::nn::describe_rotary_positions(t, {"default", "linear", "llama3"},
                                         "not; all divided by rope_factor; long wavelengths alone (Llama 3.1)");
  t.add("rope_factor", &LlamaOptions::rope_factor)
      .above(0)
      .spelling("rope_scaling.factor")
      .spelling("rope_parameters.factor")
      .doc("what scaled frequencies are divided by; required by rope_type linear and llama3");
  t.add("rope_low_frequency_factor", &LlamaOptions::rope_low_frequency_factor)
      .above(0)
      .spelling("rope_scaling.low_freq_factor")
      .spelling("rope_parameters.low_freq_factor")
      .doc("llama3: wavelengths above rope_original_length / this are divided");
  t.add("rope_high_frequency_factor", &LlamaOptions::rope_high_frequency_factor)
      .above(0)
      .spelling("rope_scaling.high_freq_factor")
      .spelling("rope_parameters.high_freq_factor")
      .doc("llama3: wavelengths below rope_original_length / this are kept");
  t.add("rope_original_length", &LlamaOptions::rope_original_length)
      .min(1)
      .spelling("rope_scaling.original_max_position_embeddings")
      .spelling("rope_parameters.original_max_position_embeddings")
      .doc("llama3: sequence length that the unscaled model was trained on");
}

void describe_family(OptionTable<LlamaOptions>& t) {
  t.add("model_type", &LlamaOptions::model_type)
      .choices({"llama", "mistral", "qwen2"})
      .doc("family of the config.json; qwen2 has biases on q, k and v");
  t.add("attention_bias", &LlamaOptions::attention_bias).doc("biases on q, k, v and the output product");
  t.add("mlp_bias", &LlamaOptions::mlp_bias).doc("biases in the feed-forward layer");
  t.add("use_sliding_window", &LlamaOptions::use_sliding_window)
      .doc("whether sliding_window is in use; when not set: not for qwen2, else yes");
}

/// What presets differ in; the rest is the family's.
struct Sizes {
  std::int64_t vocab, hidden, layers, heads, kv_heads, ff, length;
};

capstan::config::Preset preset(const char* type, const Sizes& s, double epsilon, double theta) {
  return {{"model_type", std::string(type)},
          {"vocab_size", s.vocab},
          {"hidden_size", s.hidden},
          {"num_layers", s.layers},
          {"num_heads", s.heads},
          {"num_kv_heads", s.kv_heads},
          {"ff_dim", s.ff},
          {"seq_length", s.length},
          {"rms_norm_epsilon", epsilon},
          {"rope_theta", theta}};
}

capstan::config::Preset llama3(const Sizes& sizes, double factor, bool tied) {
  auto out = preset("llama", sizes, 1e-5, 5e5);
  out.insert(out.end(), {{"rope_type", std::string("llama3")}, {"rope_factor", factor}, {"tie_word_embeddings", tied}});
  return out;
}

capstan::config::Preset qwen2(const Sizes& sizes, bool tied) {
  auto out = preset("qwen2", sizes, 1e-6, 1e6);
  out.emplace_back("tie_word_embeddings", tied);
  return out;
}

}  // namespace

void LlamaOptions::describe(OptionTable<LlamaOptions>& t) {
  describe_family(t);
  capstan::nn::describe_rotary_sizes(t, "the gated feed-forward layer");
  describe_rope(t);
  capstan::nn::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets LlamaOptions::presets() {
  return {{"llama2-7b", preset("llama", {32000, 4096, 32, 32, 32, 11008, 4096}, 1e-5, 1e4)},
          {"llama2-13b", preset("llama", {32000, 5120, 40, 40, 40, 13824, 4096}, 1e-5, 1e4)},
          {"llama2-70b", preset("llama", {32000, 8192, 80, 64, 8, 28672, 4096}, 1e-5, 1e4)},
          {"llama3.1-8b", llama3({128256, 4096, 32, 32, 8, 14336, 131072}, 8, false)},
          {"llama3.1-70b", llama3({128256, 8192, 80, 64, 8, 28672, 131072}, 8, false)},
          {"llama3.2-1b", llama3({128256, 2048, 16, 32, 8, 8192, 131072}, 32, true)},
          {"llama3.2-3b", llama3({128256, 3072, 28, 24, 8, 8192, 131072}, 32, true)},
          {"mistral-7b-v0.3", preset("mistral", {32768, 4096, 32, 32, 8, 14336, 32768}, 1e-5, 1e6)},
          {"qwen2.5-0.5b", qwen2({151936, 896, 24, 14, 2, 4864, 32768}, true)},
          {"qwen2.5-7b", qwen2({152064, 3584, 28, 28, 4, 18944, 131072}, false)}};
}

}  // namespace llama
