// Nemotron's architecture (NVIDIA 2024; Nemotron 4, Minitron): Llama's with layer norms that multiply by 1 + weight,
// plain feed-forward layers with a squared ReLU, and positions of half of each head.
#include <ATen/ATen.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace nemotron {
namespace {

namespace decoder = capstan::decoder;

struct NemotronOptions : decoder::RotaryOptions {
  NemotronOptions() {
    rms_norm_epsilon = 1e-5;
    partial_rotary_factor = 0.5;
    activation = "relu2";
    init_std = 0.0134;
  }
  std::string model_type = "nemotron";
  bool attention_bias = false;
  bool mlp_bias = false;

  static void describe(capstan::config::OptionTable<NemotronOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = NemotronOptions;

void NemotronOptions::describe(capstan::config::OptionTable<NemotronOptions>& t) {
  t.add("model_type", &O::model_type).choices({"nemotron"}).doc("family of the config.json");
  t.add("attention_bias", &O::attention_bias).doc("biases on q, k, v and the output product");
  t.add("mlp_bias", &O::mlp_bias).doc("biases in the feed-forward layer");
  decoder::describe_rotary_sizes(t, "the feed-forward layer");
  decoder::describe_partial_rotary(t);
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t, "relu2", "hidden_act", "norm_eps");
}

// The published config.json files' numbers.
capstan::config::Presets NemotronOptions::presets() {
  const auto of = [](const decoder::RotarySizes& sizes) {
    auto out = decoder::rotary_preset("nemotron", sizes, 1e-5, 1e4, false);
    out.emplace_back("head_dim", std::int64_t{128});
    return out;
  };
  return {{"nemotron4-15b", of({256000, 6144, 32, 48, 8, 24576, 4096})},
          {"minitron-8b", of({256000, 4096, 32, 48, 8, 16384, 4096})},
          {"minitron-4b", of({256000, 3072, 32, 24, 8, 9216, 4096})}};
}

capstan::config::Presets NemotronOptions::file_defaults() {
  auto all = decoder::rotary_defaults({.epsilon = 1e-5, .length = 4096, .activation = "relu2"},
                                      {{"attention_bias", false}, {"mlp_bias", false}, {"partial_rotary_factor", 0.5}});
  for (auto& [key, value] : all)
    if (key == "init_std") value = 0.0134;
  return {{"nemotron", std::move(all)}};
}

std::vector<capstan::config::FileKeys> NemotronOptions::file_keys() {
  return decoder::file_keys({decoder::family_keys("nemotron", decoder::rotary_keys({"partial_rotary_factor"}))});
}

class SquaredRelu : public decoder::Activation {
 public:
  explicit SquaredRelu(capstan::nn::Layer& parent) : Activation(parent, "squared_relu") {}
  at::Tensor forward(const at::Tensor& x) const override { return at::relu(x).square(); }
};

class Nemotron : public decoder::RotaryModel<NemotronOptions> {
 public:
  using RotaryModel::RotaryModel;

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    made.norm = decoder::Spec::Norm::layer;
    made.norm_factor = capstan::nn::RmsNorm::Factor::one_plus_weight;
    made.mlp.gated = false;
    made.activation = [](capstan::nn::Layer& parent, const std::string&) {
      return std::make_unique<SquaredRelu>(parent);
    };
    made.qkv_bias = made.projection_bias = options_->attention_bias;
    made.mlp_bias = options_->mlp_bias;
    made.names.up = {"mlp.up_proj"};
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "NemotronForCausalLM";
    RotaryModel::describe_files(map);
  }
};

}  // namespace

CAPSTAN_MODEL("nemotron", "0.1.0",
              "Nemotron's architecture: layer norms times 1 + weight, a squared ReLU, positions of half of each head",
              Nemotron, NemotronOptions)

}  // namespace nemotron
