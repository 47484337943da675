// Granite 3's architecture (IBM 2024): Llama's with multipliers of embeddings, residuals, scores and logits.
#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_options.h>
#include <capstan/model.h>

#include <cmath>

namespace granite {
namespace {

namespace decoder = capstan::decoder;

struct GraniteOptions : decoder::RotaryOptions {
  std::string model_type = "granite";
  double embedding_multiplier = 1;
  double residual_multiplier = 1;
  std::optional<double> attention_multiplier;
  double logits_scaling = 1;
  bool attention_bias = false;
  bool mlp_bias = false;

  double score_multiplier() const { return attention_multiplier.value_or(1 / std::sqrt(static_cast<double>(dim()))); }
  static void describe(capstan::config::OptionTable<GraniteOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void GraniteOptions::describe(capstan::config::OptionTable<GraniteOptions>& t) {
  t.add("model_type", &GraniteOptions::model_type).choices({"granite"}).doc("family of the config.json");
  t.add("embedding_multiplier", &GraniteOptions::embedding_multiplier).above(0).doc("multiplies the embeddings");
  t.add("residual_multiplier", &GraniteOptions::residual_multiplier)
      .above(0)
      .doc("multiplies what each layer adds to its residual");
  t.add("attention_multiplier", &GraniteOptions::attention_multiplier)
      .above(0)
      .doc("multiplies q k; 1 / sqrt(width of a head) when not set");
  t.add("logits_scaling", &GraniteOptions::logits_scaling).above(0).doc("what logits are divided by");
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
    out.insert(out.end(), {{"embedding_multiplier", 12.0},
                           {"residual_multiplier", 0.22},
                           {"attention_multiplier", attention},
                           {"logits_scaling", logits}});
    return out;
  };
  const auto of_2b = [&](std::int64_t length, double theta) {
    return of({49152, 2048, 40, 32, 8, 8192, length}, theta, 0.015625, 8);
  };
  const auto of_8b = [&](std::int64_t length, double theta) {
    return of({49152, 4096, 40, 32, 8, 12800, length}, theta, 0.0078125, 16);
  };
  return {{"granite3.0-2b", of_2b(4096, 1e4)},
          {"granite3.0-8b", of_8b(4096, 1e4)},
          {"granite3.1-2b", of_2b(131072, 5e6)},
          {"granite3.1-8b", of_8b(131072, 1e7)}};
}

capstan::config::Presets GraniteOptions::file_defaults() {
  return {{"granite", decoder::rotary_defaults({}, {{"embedding_multiplier", 1.0},
                                                    {"residual_multiplier", 1.0},
                                                    {"attention_multiplier", 1.0},
                                                    {"logits_scaling", 1.0},
                                                    {"attention_bias", false},
                                                    {"mlp_bias", false}})}};
}

std::vector<capstan::config::FileKeys> GraniteOptions::file_keys() {
  return decoder::file_keys({decoder::family_keys("granite", decoder::rotary_keys())});
}

class Granite : public decoder::Model {
 public:
  explicit Granite(capstan::config::Options<GraniteOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_rotary(options_, diagnostics);
    decoder::check_rotary_scaling(options_, diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    const auto usual = 1 / std::sqrt(static_cast<double>(o.dim()));
    made.attention.scale = made.attention.scale.value_or(usual) / usual * o.score_multiplier();  // YaRN's factor stays
    made.embedding_multiplier = o.embedding_multiplier;
    made.residual_multiplier = o.residual_multiplier;
    made.logits_multiplier = 1 / o.logits_scaling;
    made.qkv_bias = made.projection_bias = o.attention_bias;
    made.mlp_bias = o.mlp_bias;
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "GraniteForCausalLM";
    if (!options_->attention_multiplier)
      map.more["attention_multiplier"] = capstan::number_text(options_->score_multiplier());
    decoder::describe_rotary_files(*options_, map);
    decoder::describe_rotary_scaling_files(*options_, map);
  }

 private:
  capstan::config::Options<GraniteOptions> options_;
};

}  // namespace

CAPSTAN_MODEL("granite", "0.1.0",
              "Granite 3's architecture: Llama's with multipliers of embeddings, residuals, scores and logits", Granite,
              GraniteOptions)

}  // namespace granite
