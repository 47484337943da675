// StableLM's architecture (Stability AI 2023 and 2024): Llama's with layer norms and positions of a part of each head.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace stablelm {
namespace {

namespace decoder = capstan::decoder;

struct StableLmOptions : decoder::RotaryOptions {
  StableLmOptions() {
    rms_norm_epsilon = 1e-5;
    partial_rotary_factor = 0.25;
  }
  std::string model_type = "stablelm";
  bool use_qkv_bias = false;
  bool use_parallel_residual = false;

  static void describe(capstan::config::OptionTable<StableLmOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = StableLmOptions;

void StableLmOptions::describe(capstan::config::OptionTable<StableLmOptions>& t) {
  t.add("model_type", &O::model_type).choices({"stablelm"}).doc("family of the config.json");
  t.add("use_qkv_bias", &O::use_qkv_bias).doc("biases on q, k and v");
  t.add("use_parallel_residual", &O::use_parallel_residual)
      .doc("attention and feed-forward layer stand side by side after one norm");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_partial_rotary(t);
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t, "silu", "hidden_act", "layer_norm_eps");
}

// The published config.json files' numbers.
capstan::config::Presets StableLmOptions::presets() {
  const auto of = [](const decoder::RotarySizes& sizes, bool biases) {
    auto out = decoder::rotary_preset("stablelm", sizes, 1e-5, 1e4, false);
    out.emplace_back("use_qkv_bias", biases);
    return out;
  };
  return {{"stablelm-3b-4e1t", of({50304, 2560, 32, 32, 32, 6912, 4096}, false)},
          {"stablelm2-1.6b", of({100352, 2048, 24, 32, 32, 5632, 4096}, true)}};
}

capstan::config::Presets StableLmOptions::file_defaults() {
  return {{"stablelm", decoder::rotary_defaults({.epsilon = 1e-5, .length = 4096}, {{"num_kv_heads", std::int64_t{32}},
                                                                                    {"use_qkv_bias", false},
                                                                                    {"use_parallel_residual", false},
                                                                                    {"partial_rotary_factor", 0.25}})}};
}

std::vector<capstan::config::FileKeys> StableLmOptions::file_keys() {
  using Use = capstan::config::FileKey::Use;
  auto keys = decoder::rotary_keys({"partial_rotary_factor"});
  keys.push_back({"qk_layernorm", Use::only, "models with layer norms of q and k are not supported", {"false"}});
  keys.push_back(
      {"hidden_dropout", Use::only, "dropout after the feed-forward layer alone is not supported", {"0", "0.0"}});
  return decoder::file_keys({decoder::family_keys("stablelm", std::move(keys))});
}

class StableLm : public decoder::RotaryModel<StableLmOptions> {
 public:
  using RotaryModel::RotaryModel;

  void check(capstan::Diagnostics& diagnostics) const override {
    RotaryModel::check(diagnostics);
    if (options_->dim() * options_->num_heads == options_->hidden_size) return;
    diagnostics.add(options_.where(&O::head_dim), "stablelm's heads are together as wide as hidden_size",
                    "remove head_dim");
  }

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    made.norm = decoder::Spec::Norm::layer;
    made.parallel = made.one_norm = options_->use_parallel_residual;
    made.qkv_bias = options_->use_qkv_bias;
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "StableLmForCausalLM";
    RotaryModel::describe_files(map);
  }
};

}  // namespace

CAPSTAN_MODEL("stablelm", "0.1.0",
              "StableLM's architecture: Llama's with layer norms, positions of a part of each head", StableLm,
              StableLmOptions)

}  // namespace stablelm
