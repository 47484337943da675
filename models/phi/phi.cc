// Phi 1's and 2's architecture (Gunasekar et al. 2023): attention and feed-forward layer side by side after one layer
// norm, positions of a part of each head, biases on all products and on the head.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/layer_norm_options.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace phi {
namespace {

namespace decoder = capstan::decoder;

struct PhiOptions : decoder::RotaryOptions {
  PhiOptions() {
    rms_norm_epsilon = 1e-5;
    activation = "gelu_new";
    partial_rotary_factor = 0.5;
  }
  std::string model_type = "phi";
  double dropout = 0;
  double embedding_dropout = 0;

  static void describe(capstan::config::OptionTable<PhiOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = PhiOptions;

void PhiOptions::describe(capstan::config::OptionTable<PhiOptions>& t) {
  t.add("model_type", &O::model_type).choices({"phi"}).doc("family of the config.json");
  decoder::as_dropout(t.add("dropout", &O::dropout)).spelling("resid_pdrop").doc("dropout after each layer");
  decoder::as_dropout(t.add("embedding_dropout", &O::embedding_dropout))
      .spelling("embd_pdrop")
      .doc("dropout after the embedding");
  decoder::describe_rotary_sizes(t, "the feed-forward layer");
  decoder::describe_partial_rotary(t);
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t, "gelu_new", "hidden_act", "layer_norm_eps");
}

// The published config.json files' numbers, but for their dropout.
capstan::config::Presets PhiOptions::presets() {
  const auto of = [](const decoder::RotarySizes& sizes, double turned) {
    auto out = decoder::rotary_preset("phi", sizes, 1e-5, 1e4, false);
    out.emplace_back("partial_rotary_factor", turned);
    return out;
  };
  return {{"phi-1", of({51200, 2048, 24, 32, 32, 8192, 2048}, 0.5)},
          {"phi-1.5", of({51200, 2048, 24, 32, 32, 8192, 2048}, 0.5)},
          {"phi-2", of({51200, 2560, 32, 32, 32, 10240, 2048}, 0.4)}};
}

capstan::config::Presets PhiOptions::file_defaults() {
  return {{"phi",
           decoder::rotary_defaults({.epsilon = 1e-5, .length = 2048, .activation = "gelu_new"},
                                    {{"dropout", 0.0}, {"embedding_dropout", 0.0}, {"partial_rotary_factor", 0.5}})}};
}

std::vector<capstan::config::FileKeys> PhiOptions::file_keys() {
  return decoder::file_keys({decoder::family_keys(
      "phi",
      decoder::joined(
          {decoder::rotary_keys({"partial_rotary_factor"}), decoder::own_names({"dropout", "embedding_dropout"}),
           decoder::only_keys({"qk_layernorm"}, "false", "models with layer norms of q and k are not supported")}))});
}

class Phi : public decoder::RotaryModel<PhiOptions> {
 public:
  using RotaryModel::RotaryModel;

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.norm = decoder::Spec::Norm::layer;
    made.parallel = made.one_norm = true;
    made.mlp.gated = false;
    made.qkv_bias = made.projection_bias = made.mlp_bias = made.head_bias = true;
    made.dropout = o.dropout;
    made.embedding_dropout = o.embedding_dropout;
    made.names.projection = "self_attn.dense";
    made.names.up = {"mlp.fc1"};
    made.names.down = "mlp.fc2";
    made.names.norm = "model.final_layernorm";
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "PhiForCausalLM";
    RotaryModel::describe_files(map);
  }
};

}  // namespace

CAPSTAN_MODEL("phi", "0.1.0", "Phi 1's and 2's architecture: one layer norm a block, positions of a part of each head",
              Phi, PhiOptions)

}  // namespace phi
