// GLM 4's architecture (GLM team 2024), as transformers' Glm and Glm4 have it: Llama's with rotary positions that turn
// a part of each head, in pairs, and biases of q, k and v; from 0414 on also norms after the layers.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace glm4 {
namespace {

namespace decoder = capstan::decoder;

struct Glm4Options : decoder::RotaryOptions {
  Glm4Options() {
    rms_norm_epsilon = 1e-5;
    partial_rotary_factor = 0.5;
  }
  std::string model_type = "glm4";
  bool attention_bias = true;

  static void describe(capstan::config::OptionTable<Glm4Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void Glm4Options::describe(capstan::config::OptionTable<Glm4Options>& t) {
  t.add("model_type", &Glm4Options::model_type)
      .choices({"glm", "glm4"})
      .doc("family of the config.json; glm4 has norms after its layers too");
  t.add("attention_bias", &Glm4Options::attention_bias).doc("biases on q, k and v");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_partial_rotary(t);
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets Glm4Options::presets() {
  const auto of = [](const std::string& model_type, const decoder::RotarySizes& sizes, double epsilon, bool biases) {
    auto out = decoder::rotary_preset(model_type, sizes, epsilon, 1e4, false);
    out.insert(out.end(), {{"head_dim", std::int64_t{128}}, {"attention_bias", biases}});
    return out;
  };
  return {{"glm4-9b-chat", of("glm", {151552, 4096, 40, 32, 2, 13696, 131072}, 1.5625e-7, true)},
          {"glm4-9b-0414", of("glm4", {151552, 4096, 40, 32, 2, 13696, 32768}, 1e-5, true)},
          {"glm4-32b-0414", of("glm4", {151552, 6144, 61, 48, 2, 23040, 32768}, 1e-5, false)}};
}

capstan::config::Presets Glm4Options::file_defaults() {
  const auto both =
      decoder::rotary_defaults({.epsilon = 1.5625e-7, .length = 131072}, {{"num_kv_heads", std::int64_t{2}},
                                                                          {"head_dim", std::int64_t{128}},
                                                                          {"partial_rotary_factor", 0.5},
                                                                          {"attention_bias", true}});
  return {{"glm", both}, {"glm4", both}};
}

std::vector<capstan::config::FileKeys> Glm4Options::file_keys() {
  const auto keys = decoder::rotary_keys({"partial_rotary_factor"});
  return decoder::file_keys({decoder::family_keys("glm", keys), decoder::family_keys("glm4", keys)});
}

class Glm4 : public decoder::RotaryModel<Glm4Options> {
 public:
  using RotaryModel::RotaryModel;

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    made.rotary = options_->rotary({.interleaved = true});
    made.qkv_bias = options_->attention_bias;
    made.names.fused = {{"mlp.gate_up_proj", {"mlp.gate_proj", "mlp.up_proj"}}};
    if (options_->model_type != "glm4") return made;
    made.norm_after = true;
    made.names.attention_post_norm = "post_self_attn_layernorm";
    made.names.mlp_post_norm = "post_mlp_layernorm";
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = options_->model_type == "glm4" ? "Glm4ForCausalLM" : "GlmForCausalLM";
    RotaryModel::describe_files(map);
  }
};

}  // namespace

CAPSTAN_MODEL("glm4", "0.1.0", "GLM 4's architecture: positions in pairs of half of each head, norms on both sides",
              Glm4, Glm4Options)

}  // namespace glm4
