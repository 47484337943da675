// StarCoder 2's architecture (Lozhkov et al. 2024): rotary attention with few key heads, layer norms, biases and a
// plain GELU; a window in all blocks.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/layer_norm_options.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace starcoder2 {
namespace {

namespace decoder = capstan::decoder;

struct Starcoder2Options : decoder::RotaryOptions {
  Starcoder2Options() {
    rms_norm_epsilon = 1e-5;
    activation = "gelu_pytorch_tanh";
    tie_word_embeddings = true;
    init_std = 0.018042;
  }
  std::string model_type = "starcoder2";
  bool use_bias = true;
  double dropout = 0;
  double embedding_dropout = 0;

  static void describe(capstan::config::OptionTable<Starcoder2Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = Starcoder2Options;

void Starcoder2Options::describe(capstan::config::OptionTable<Starcoder2Options>& t) {
  t.add("model_type", &O::model_type).choices({"starcoder2"}).doc("family of the config.json");
  t.add("use_bias", &O::use_bias).doc("biases on all products of attention and feed-forward layer");
  decoder::as_dropout(t.add("dropout", &O::dropout)).spelling("residual_dropout").doc("dropout after each layer");
  decoder::as_dropout(t.add("embedding_dropout", &O::embedding_dropout)).doc("dropout after the embedding");
  decoder::describe_rotary_sizes(t, "the feed-forward layer");
  decoder::describe_window(t, "in all blocks");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t, "gelu_pytorch_tanh", "hidden_act", "norm_epsilon");
}

// The published config.json files' numbers, but for their dropout.
capstan::config::Presets Starcoder2Options::presets() {
  const auto of = [](const decoder::RotarySizes& sizes, double theta, bool tied) {
    auto out = decoder::rotary_preset("starcoder2", sizes, 1e-5, theta, tied);
    out.emplace_back("sliding_window", std::int64_t{4096});
    return out;
  };
  return {{"starcoder2-3b", of({49152, 3072, 30, 24, 2, 12288, 16384}, 999999.4420358813, true)},
          {"starcoder2-7b", of({49152, 4608, 32, 36, 4, 18432, 16384}, 1e6, true)},
          {"starcoder2-15b", of({49152, 6144, 40, 48, 4, 24576, 16384}, 1e5, false)}};
}

capstan::config::Presets Starcoder2Options::file_defaults() {
  auto all = decoder::rotary_defaults(
      {.epsilon = 1e-5, .length = 4096, .activation = "gelu_pytorch_tanh", .tied = true},
      {{"num_kv_heads", std::int64_t{2}}, {"use_bias", true}, {"dropout", 0.0}, {"embedding_dropout", 0.0}});
  for (auto& [key, value] : all)
    if (key == "init_std") value = 0.018042;
  return {{"starcoder2", std::move(all)}};
}

std::vector<capstan::config::FileKeys> Starcoder2Options::file_keys() {
  return decoder::file_keys({decoder::family_keys(
      "starcoder2", decoder::joined({decoder::rotary_keys(), decoder::own_names({"dropout"}),
                                     decoder::neutral_keys({"activation_function", "layer_norm_epsilon", "mlp_type",
                                                            "norm_type", "attention_softmax_in_fp32",
                                                            "scale_attention_softmax_in_fp32", "scale_attn_weights"},
                                                           "transformers does not read it in this family")}))});
}

class Starcoder2 : public decoder::RotaryModel<Starcoder2Options> {
 public:
  using RotaryModel::RotaryModel;

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.norm = decoder::Spec::Norm::layer;
    made.mlp.gated = false;
    made.qkv_bias = made.projection_bias = made.mlp_bias = o.use_bias;
    made.attention.window = o.window();
    made.dropout = o.dropout;
    made.embedding_dropout = o.embedding_dropout;
    made.names.up = {"mlp.c_fc"};
    made.names.down = "mlp.c_proj";
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "Starcoder2ForCausalLM";
    RotaryModel::describe_files(map);
  }
};

}  // namespace

CAPSTAN_MODEL("starcoder2", "0.1.0", "StarCoder 2's architecture: rotary attention, layer norms, biases, GELU",
              Starcoder2, Starcoder2Options)

}  // namespace starcoder2
