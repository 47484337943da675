// Llama's architecture (Touvron et al. 2023, Dubey et al. 2024): RMSNorm, rotary positions, grouped-query attention,
// SwiGLU. Mistral's and Qwen 2's are the same with other options.
#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_options.h>
#include <capstan/model.h>

namespace llama {
namespace {

using capstan::cat;
using capstan::config::Preset;
namespace decoder = capstan::decoder;

/// Options of a Llama, Llama 2 or 3, Mistral or Qwen 2.
struct LlamaOptions : decoder::RotaryOptions, decoder::WindowOptions {
  std::string model_type = "llama";
  bool attention_bias = false;
  bool mlp_bias = false;

  bool is_qwen2() const { return model_type == "qwen2"; }
  /// Whether blocks are limited to the window: a Mistral's are wherever it has one.
  bool uses_window() const {
    return window() && (is_qwen2() ? use_sliding_window.value_or(false) : model_type == "mistral");
  }
  static void describe(capstan::config::OptionTable<LlamaOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void LlamaOptions::describe(capstan::config::OptionTable<LlamaOptions>& t) {
  t.add("model_type", &LlamaOptions::model_type)
      .choices({"llama", "mistral", "qwen2"})
      .doc("family of the config.json; qwen2 has biases on q, k and v");
  t.add("attention_bias", &LlamaOptions::attention_bias).doc("biases on q, k, v and the output product");
  t.add("mlp_bias", &LlamaOptions::mlp_bias).doc("biases in the feed-forward layer");
  decoder::describe_window(t, "all blocks of a mistral, some of a qwen2");
  decoder::describe_windows_of_blocks(t, "qwen2");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_rotary_scaling(t);
  decoder::describe_head_values(t);
  decoder::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets llama_presets() {
  const auto llama = [](const decoder::RotarySizes& sizes, double epsilon = 1e-5, double theta = 1e4) {
    return decoder::rotary_preset("llama", sizes, epsilon, theta, false);
  };
  const auto llama3 = [](const decoder::RotarySizes& sizes, double factor, bool tied = false) {
    auto out = decoder::rotary_preset("llama", sizes, 1e-5, 5e5, tied);
    out.insert(out.end(), {{"rope_type", std::string("llama3")}, {"rope_factor", factor}});
    return out;
  };
  return {{"llama-7b", llama({32000, 4096, 32, 32, 32, 11008, 2048}, 1e-6)},
          {"llama-13b", llama({32000, 5120, 40, 40, 40, 13824, 2048}, 1e-6)},
          {"llama-30b", llama({32000, 6656, 60, 52, 52, 17920, 2048}, 1e-6)},
          {"llama-65b", llama({32000, 8192, 80, 64, 64, 22016, 2048})},
          {"llama2-7b", llama({32000, 4096, 32, 32, 32, 11008, 4096})},
          {"llama2-13b", llama({32000, 5120, 40, 40, 40, 13824, 4096})},
          {"llama2-70b", llama({32000, 8192, 80, 64, 8, 28672, 4096})},
          {"llama3-8b", llama({128256, 4096, 32, 32, 8, 14336, 8192}, 1e-5, 5e5)},
          {"llama3-70b", llama({128256, 8192, 80, 64, 8, 28672, 8192}, 1e-5, 5e5)},
          {"llama3.1-8b", llama3({128256, 4096, 32, 32, 8, 14336, 131072}, 8)},
          {"llama3.1-70b", llama3({128256, 8192, 80, 64, 8, 28672, 131072}, 8)},
          {"llama3.1-405b", llama3({128256, 16384, 126, 128, 8, 53248, 131072}, 8)},
          {"llama3.2-1b", llama3({128256, 2048, 16, 32, 8, 8192, 131072}, 32, true)},
          {"llama3.2-3b", llama3({128256, 3072, 28, 24, 8, 8192, 131072}, 32, true)},
          {"llama3.3-70b", llama3({128256, 8192, 80, 64, 8, 28672, 131072}, 8)}};
}

capstan::config::Presets LlamaOptions::presets() {
  const auto mistral = [](const decoder::RotarySizes& sizes, double theta, const Preset& more = {}) {
    auto out = decoder::rotary_preset("mistral", sizes, 1e-5, theta, false);
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  const auto qwen = [](const decoder::RotarySizes& sizes, double epsilon, bool tied) {
    return decoder::rotary_preset("qwen2", sizes, epsilon, 1e6, tied);
  };
  const Preset wide_heads{{"head_dim", std::int64_t{128}}}, window{{"sliding_window", std::int64_t{4096}}};
  auto all = llama_presets();
  all.merge(
      capstan::config::Presets{{"mistral-7b-v0.1", mistral({32000, 4096, 32, 32, 8, 14336, 32768}, 1e4, window)},
                               {"mistral-7b-v0.3", mistral({32768, 4096, 32, 32, 8, 14336, 32768}, 1e6)},
                               {"mistral-nemo", mistral({131072, 5120, 40, 32, 8, 14336, 131072}, 1e6, wide_heads)},
                               {"mistral-small-24b", mistral({131072, 5120, 40, 32, 8, 32768, 32768}, 1e8, wide_heads)},
                               {"qwen2.5-0.5b", qwen({151936, 896, 24, 14, 2, 4864, 32768}, 1e-6, true)},
                               {"qwen2.5-1.5b", qwen({151936, 1536, 28, 12, 2, 8960, 131072}, 1e-6, true)},
                               {"qwen2.5-3b", qwen({151936, 2048, 36, 16, 2, 11008, 32768}, 1e-6, true)},
                               {"qwen2.5-7b", qwen({152064, 3584, 28, 28, 4, 18944, 131072}, 1e-6, false)},
                               {"qwen2.5-14b", qwen({152064, 5120, 48, 40, 8, 13824, 131072}, 1e-5, false)},
                               {"qwen2.5-32b", qwen({152064, 5120, 64, 40, 8, 27648, 131072}, 1e-5, false)},
                               {"qwen2.5-72b", qwen({152064, 8192, 80, 64, 8, 29568, 131072}, 1e-5, false)}});
  return all;
}

capstan::config::Presets LlamaOptions::file_defaults() {
  const std::int64_t window = 4096, late = 28;
  return {{"llama", decoder::rotary_defaults({}, {{"attention_bias", false}, {"mlp_bias", false}})},
          {"mistral3", {{"tie_word_embeddings", true}}},
          {"mistral", decoder::rotary_defaults({.length = 131072},
                                               {{"num_kv_heads", std::int64_t{8}}, {"sliding_window", window}})},
          {"qwen2", decoder::rotary_defaults({.length = 32768}, {{"num_kv_heads", std::int64_t{32}},
                                                                 {"use_sliding_window", false},
                                                                 {"sliding_window", window},
                                                                 {"max_window_layers", late}})}};
}

std::vector<capstan::config::FileKeys> LlamaOptions::file_keys() {
  auto llama = decoder::own_names({"head_values"});
  const auto rotary = decoder::rotary_keys();
  llama.insert(llama.end(), rotary.begin(), rotary.end());
  auto qwen2 = llama;
  qwen2.push_back(
      {"use_mrope", capstan::config::FileKey::Use::only, "positions of images are not supported", {"false"}});
  return decoder::file_keys({decoder::family_keys("llama", llama), decoder::family_keys("mistral", llama),
                             decoder::family_keys("qwen2", std::move(qwen2)),
                             decoder::wrapper_keys("mistral3", "Mistral3ForConditionalGeneration")});
}

class Llama : public decoder::Model {
 public:
  explicit Llama(capstan::config::Options<LlamaOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    const auto& o = *options_;
    decoder::check_rotary(options_, diagnostics);
    decoder::check_rotary_scaling(options_, diagnostics);
    check_window(diagnostics);
    if (o.model_type == "llama" || !(o.attention_bias || o.mlp_bias)) return;
    diagnostics.add(options_.where(o.attention_bias ? &LlamaOptions::attention_bias : &LlamaOptions::mlp_bias),
                    cat("model.", o.attention_bias ? "attention_bias" : "mlp_bias", " is true, but ", o.model_type,
                        " models have no such biases"),
                    "set model_type = \"llama\", or remove it");
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.qkv_bias = o.attention_bias || o.is_qwen2();  // which has no key for them
    made.projection_bias = o.attention_bias;
    made.mlp_bias = o.mlp_bias;
    if (o.uses_window()) made.attention.window = o.window();
    if (o.uses_window() && o.is_qwen2()) made.blocks_without_window = o.blocks_without_window(o.num_layers);
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    const auto& o = *options_;
    const std::string family = o.model_type == "mistral" ? "Mistral" : o.is_qwen2() ? "Qwen2" : "Llama";
    map.architecture = family + "ForCausalLM";
    decoder::describe_value_files(o, family + "ForSequenceClassification", map);
    decoder::describe_rotary_files(o, map);
    decoder::describe_window_files(o, o, o.is_qwen2(), map);
    if (o.model_type == "llama") map.left_out.emplace_back("sliding_window");
    if (o.model_type != "llama") map.left_out.insert(map.left_out.end(), {"attention_bias", "mlp_bias"});
    decoder::describe_rotary_scaling_files(o, map);
  }

 private:
  // What transformers does not read in the family's config.json is refused, not passed over.
  void check_window(capstan::Diagnostics& diagnostics) const {
    const auto& o = *options_;
    if (o.is_qwen2()) return decoder::check_layer_types(options_, options_->num_layers, diagnostics);
    const auto none = cat("set sliding_window = ", o.seq_length, " for none");
    if (o.window() && o.model_type == "llama") {
      diagnostics.add(options_.where(&LlamaOptions::sliding_window),
                      cat("model.sliding_window is ", *o.window(), ", but llama models see all positions"),
                      none + ", or model_type = \"mistral\"");
    }
    if (o.uses_window() && !o.use_sliding_window.value_or(true)) {
      diagnostics.add(options_.where(&LlamaOptions::use_sliding_window),
                      "model.use_sliding_window is false, but mistral models use every sliding_window that they have",
                      none);
    }
    if (!o.layer_types.empty()) {
      diagnostics.add(options_.where(&LlamaOptions::layer_types),
                      cat("model.layer_types is set, but all blocks of a ", o.model_type, " see the same positions"),
                      "remove it, or set model_type = \"qwen2\"");
    }
  }

  capstan::config::Options<LlamaOptions> options_;
};

}  // namespace

CAPSTAN_MODEL("llama", "0.1.0", "Llama's architecture (also Mistral's and Qwen 2's): RMSNorm, rotary, GQA, SwiGLU",
              Llama, LlamaOptions)

}  // namespace llama
