// Granite 3's architecture (IBM 2024): Llama's with multipliers of embeddings, residuals, scores and logits.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/multiplier_options.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace granite {
namespace {

namespace decoder = capstan::decoder;

struct GraniteOptions : decoder::RotaryOptions, decoder::MultiplierOptions {
  std::string model_type = "granite";
  bool attention_bias = false;
  bool mlp_bias = false;

  static void describe(capstan::config::OptionTable<GraniteOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void GraniteOptions::describe(capstan::config::OptionTable<GraniteOptions>& t) {
  t.add("model_type", &GraniteOptions::model_type).choices({"granite"}).doc("family of the config.json");
  decoder::describe_multipliers(t);
  t.add("attention_bias", &GraniteOptions::attention_bias).doc("biases on q, k, v and the output product");
  t.add("mlp_bias", &GraniteOptions::mlp_bias).doc("biases in the feed-forward layer");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets GraniteOptions::presets() {
  const auto of = [](const decoder::RotarySizes& sizes, double theta, double attention, double logits) {
    auto out = decoder::rotary_preset("granite", sizes, 1e-5, theta, true);
    const auto more = decoder::multiplier_preset({12, 0.22, attention, logits});
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  const auto of_2b = [&](std::int64_t length, double theta) {
    return of({49155, 2048, 40, 32, 8, 8192, length}, theta, 0.015625, 8);
  };
  const auto of_8b = [&](std::int64_t length, double theta) {
    return of({49155, 4096, 40, 32, 8, 12800, length}, theta, 0.0078125, 16);
  };
  return {{"granite3.0-2b", of_2b(4096, 1e4)},
          {"granite3.0-8b", of_8b(4096, 1e4)},
          {"granite3.1-2b", of_2b(131072, 5e6)},
          {"granite3.1-8b", of_8b(131072, 1e7)}};
}

capstan::config::Presets GraniteOptions::file_defaults() {
  auto more = decoder::multiplier_defaults();
  more.insert(more.end(), {{"attention_bias", false}, {"mlp_bias", false}});
  return {{"granite", decoder::rotary_defaults({}, more)}};
}

std::vector<capstan::config::FileKeys> GraniteOptions::file_keys() {
  return decoder::file_keys({decoder::family_keys("granite", decoder::rotary_keys())});
}

class Granite : public decoder::RotaryModel<GraniteOptions> {
 public:
  using RotaryModel::RotaryModel;

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    o.multiply(made);
    made.qkv_bias = made.projection_bias = o.attention_bias;
    made.mlp_bias = o.mlp_bias;
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "GraniteForCausalLM";
    decoder::describe_multiplier_files(*options_, options_->dim(), map);
    RotaryModel::describe_files(map);
  }
};

}  // namespace

CAPSTAN_MODEL("granite", "0.1.0",
              "Granite 3's architecture: Llama's with multipliers of embeddings, residuals, scores and logits", Granite,
              GraniteOptions)

}  // namespace granite
