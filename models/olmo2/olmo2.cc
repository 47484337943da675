// OLMo 2's architecture (OLMo team 2024): Llama's with norms after its layers instead of before them, and norms
// over all of q's and k's features.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace olmo2 {
namespace {

namespace decoder = capstan::decoder;

struct Olmo2Options : decoder::RotaryOptions {
  Olmo2Options() {
    rms_norm_epsilon = 1e-6;
    rope_theta = 5e5;
  }
  std::string model_type = "olmo2";
  bool attention_bias = false;

  static void describe(capstan::config::OptionTable<Olmo2Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void Olmo2Options::describe(capstan::config::OptionTable<Olmo2Options>& t) {
  t.add("model_type", &Olmo2Options::model_type).choices({"olmo2"}).doc("family of the config.json");
  t.add("attention_bias", &Olmo2Options::attention_bias).doc("biases on q, k, v and the output product");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets Olmo2Options::presets() {
  return {{"olmo2-1b", decoder::rotary_preset("olmo2", {100352, 2048, 16, 16, 16, 8192, 4096}, 1e-6, 5e5, false)},
          {"olmo2-7b", decoder::rotary_preset("olmo2", {100352, 4096, 32, 32, 32, 11008, 4096}, 1e-6, 5e5, false)},
          {"olmo2-13b", decoder::rotary_preset("olmo2", {100352, 5120, 40, 40, 40, 13824, 4096}, 1e-6, 5e5, false)},
          {"olmo2-32b", decoder::rotary_preset("olmo2", {100352, 5120, 64, 40, 8, 27648, 4096}, 1e-6, 5e5, false)}};
}

capstan::config::Presets Olmo2Options::file_defaults() {
  return {{"olmo2", decoder::rotary_defaults({.epsilon = 1e-5}, {{"attention_bias", false}})}};
}

std::vector<capstan::config::FileKeys> Olmo2Options::file_keys() {
  return decoder::file_keys({decoder::family_keys("olmo2", decoder::rotary_keys())});
}

class Olmo2 : public decoder::RotaryModel<Olmo2Options> {
 public:
  using RotaryModel::RotaryModel;

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    made.norm_before = false;
    made.norm_after = true;
    made.head_norms = decoder::Spec::HeadNorms::all;
    made.qkv_bias = made.projection_bias = options_->attention_bias;
    made.names.attention_post_norm = "post_attention_layernorm";
    made.names.mlp_post_norm = "post_feedforward_layernorm";
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "Olmo2ForCausalLM";
    RotaryModel::describe_files(map);
  }
};

}  // namespace

CAPSTAN_MODEL("olmo2", "0.1.0", "OLMo 2's architecture: Llama's with norms after its layers and of q and k", Olmo2,
              Olmo2Options)

}  // namespace olmo2
