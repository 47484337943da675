// Apertus's architecture (Swiss AI 2025): Llama's with norms of q and k by head, and plain feed-forward layers with
// xIELU, a function with two trained numbers.
#include <ATen/ATen.h>
#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

#include <cmath>

namespace apertus {
namespace {

using capstan::cat;
namespace decoder = capstan::decoder;
namespace layout = capstan::layout;
namespace nn = capstan::nn;

struct ApertusOptions : decoder::RotaryOptions {
  ApertusOptions() {
    rms_norm_epsilon = 1e-5;
    rope_theta = 12e6;
    activation = "xielu";
  }
  std::string model_type = "apertus";
  bool attention_bias = false;

  static void describe(capstan::config::OptionTable<ApertusOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void ApertusOptions::describe(capstan::config::OptionTable<ApertusOptions>& t) {
  t.add("model_type", &ApertusOptions::model_type).choices({"apertus"}).doc("family of the config.json");
  t.add("attention_bias", &ApertusOptions::attention_bias).doc("biases on q, k, v and the output product");
  decoder::describe_rotary_sizes(t, "the feed-forward layer");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t, "xielu");
}

capstan::config::Preset scaled(capstan::config::Preset out) {
  out.insert(out.end(), {{"rope_type", std::string("llama3")},
                         {"rope_factor", 8.0},
                         {"rope_low_frequency_factor", 1.0},
                         {"rope_high_frequency_factor", 4.0},
                         {"rope_original_length", std::int64_t{8192}}});
  return out;
}

// The published config.json files' numbers.
capstan::config::Presets ApertusOptions::presets() {
  const auto of = [](const decoder::RotarySizes& sizes) {
    return scaled(decoder::rotary_preset("apertus", sizes, 1e-5, 12e6, false));
  };
  return {{"apertus-8b", of({131072, 4096, 32, 32, 8, 21504, 65536})},
          {"apertus-70b", of({131072, 8192, 80, 64, 8, 43008, 65536})}};
}

// A file without a table of positions has the published models' scaling.
capstan::config::Presets ApertusOptions::file_defaults() {
  auto all = decoder::rotary_defaults(
      {.epsilon = 1e-5, .theta = 12e6, .length = 65536, .activation = "xielu"},
      {{"attention_bias", false}, {"rope_factor", 8.0}, {"rope_original_length", std::int64_t{8192}}});
  for (auto& [key, value] : all)
    if (key == "rope_type") value = std::string("llama3");
  return {{"apertus", std::move(all)}};
}

std::vector<capstan::config::FileKeys> ApertusOptions::file_keys() {
  using Use = capstan::config::FileKey::Use;
  const std::string other = "this is another architecture, which is not supported";
  auto keys = decoder::rotary_keys();
  keys.push_back({"qk_norm", Use::only, other, {"true"}});
  for (const char* name : {"post_norm", "mlp_bias"}) keys.push_back({name, Use::only, other, {"false"}});
  return decoder::file_keys({decoder::family_keys("apertus", std::move(keys))});
}

// xIELU (Huang and Schlag 2024): p x² + beta x where x > 0, and n (exp(min(x, eps)) - 1 - x) + beta x elsewhere, with
// p = softplus(alpha_p) and n = beta + softplus(alpha_n). Files hold beta and eps too, which are never trained.
class Xielu : public decoder::Activation {
 public:
  Xielu(nn::Layer& parent, const std::string& file)
      : Activation(parent, "xielu"),
        positive_(number(file + "alpha_p", std::log(std::expm1(0.8)))),
        negative_(number(file + "alpha_n", std::log(std::expm1(0.3)))),
        beta_(number(file + "beta", 0.5, /*trained=*/false)),
        least_(number(file + "eps", -1e-6, /*trained=*/false)) {}

  at::Tensor forward(const at::Tensor& x) const override {
    const auto type = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
    const auto of = [type](const nn::WeightPtr& weight) -> at::Tensor { return weight->value().to(type); };
    const auto wide = x.to(type);
    const auto beta = of(beta_), negative = beta + at::softplus(of(negative_));
    const auto below = (at::minimum(wide, of(least_)).expm1() - wide) * negative;
    const auto above = at::softplus(of(positive_)) * wide.square();
    return (at::where(wide > 0, above, below) + beta * wide).to(x.scalar_type());
  }

 private:
  nn::WeightPtr number(const std::string& name, double value, bool trained = true) {
    auto record = nn::record(name, {1}, layout::Init::constant(value), false);
    record.trainable = trained;
    if (!trained) record.usage = layout::Usage::buffer;
    return own(std::make_shared<nn::Weight>(std::vector<layout::Param>{record}), nn::Use::heads);
  }
  nn::WeightPtr positive_;
  nn::WeightPtr negative_;
  nn::WeightPtr beta_;
  nn::WeightPtr least_;
};

class Apertus : public decoder::RotaryModel<ApertusOptions> {
 public:
  using RotaryModel::RotaryModel;

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    made.qkv_bias = made.projection_bias = options_->attention_bias;
    made.head_norms = decoder::Spec::HeadNorms::each;
    made.mlp.gated = false;
    made.activation = [](nn::Layer& parent, const std::string& records) {
      return std::make_unique<Xielu>(parent, records + "mlp.act_fn.");
    };
    made.names.attention_norm = "attention_layernorm";
    made.names.mlp_norm = "feedforward_layernorm";
    made.names.up = {"mlp.up_proj"};
    return made;
  }

  void describe_files(layout::FileMap& map) const override {
    map.architecture = "ApertusForCausalLM";
    RotaryModel::describe_files(map);
    if (options_->rope_type == "default") {
      map.more["rope_scaling"] = "null";
      map.more["rope_parameters"] = decoder::rope_table(*options_, /*is_scaled=*/false);
    }
    for (std::int64_t i = 0; i < options_->num_layers; ++i) {
      for (const char* constant : {"beta", "eps"}) {  // tensors without dimensions
        auto& tensor = map.tensors.at(cat("model.layers.", i, ".mlp.act_fn.", constant));
        tensor.stack = {tensor.name};
      }
    }
  }
};

}  // namespace

CAPSTAN_MODEL("apertus", "0.1.0", "Apertus's architecture: norms of q and k, and a trained function, xIELU", Apertus,
              ApertusOptions)

}  // namespace apertus
