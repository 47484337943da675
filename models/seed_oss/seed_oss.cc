// Seed-OSS's architecture (ByteDance Seed 2025): Llama's with a width of heads of its own, biases of q, k and v, and
// dropout after each layer.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/layer_norm_options.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace seed_oss {
namespace {

namespace decoder = capstan::decoder;

struct SeedOssOptions : decoder::RotaryOptions {
  std::string model_type = "seed_oss";
  bool attention_bias = true;
  bool attention_out_bias = false;
  bool mlp_bias = false;
  double dropout = 0;

  static void describe(capstan::config::OptionTable<SeedOssOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = SeedOssOptions;

void SeedOssOptions::describe(capstan::config::OptionTable<SeedOssOptions>& t) {
  t.add("model_type", &O::model_type).choices({"seed_oss"}).doc("family of the config.json");
  t.add("attention_bias", &O::attention_bias).doc("biases on q, k and v");
  t.add("attention_out_bias", &O::attention_out_bias).doc("a bias on the output product of attention");
  t.add("mlp_bias", &O::mlp_bias).doc("biases in the feed-forward layer");
  decoder::as_dropout(t.add("dropout", &O::dropout)).spelling("residual_dropout").doc("dropout after each layer");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// The published config.json's numbers, but for its dropout.
capstan::config::Presets SeedOssOptions::presets() {
  auto made = decoder::rotary_preset("seed_oss", {155136, 5120, 64, 80, 8, 27648, 524288}, 1e-6, 1e7, false);
  made.emplace_back("head_dim", std::int64_t{128});
  return {{"seed-oss-36b", std::move(made)}};
}

capstan::config::Presets SeedOssOptions::file_defaults() {
  auto all = decoder::rotary_defaults({.length = 524288}, {{"num_kv_heads", std::int64_t{8}},
                                                           {"head_dim", std::int64_t{128}},
                                                           {"attention_bias", true},
                                                           {"attention_out_bias", false},
                                                           {"mlp_bias", false},
                                                           {"dropout", 0.1}});
  for (auto& [key, value] : all)
    if (key == "attention_dropout") value = 0.1;
  return {{"seed_oss", std::move(all)}};
}

std::vector<capstan::config::FileKeys> SeedOssOptions::file_keys() {
  return decoder::file_keys(
      {decoder::family_keys("seed_oss", decoder::joined({decoder::own_names({"dropout"}), decoder::rotary_keys()}))});
}

class SeedOss : public decoder::RotaryModel<SeedOssOptions> {
 public:
  using RotaryModel::RotaryModel;

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.qkv_bias = o.attention_bias;
    made.projection_bias = o.attention_out_bias;
    made.mlp_bias = o.mlp_bias;
    made.dropout = o.dropout;
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "SeedOssForCausalLM";
    RotaryModel::describe_files(map);
  }
};

}  // namespace

CAPSTAN_MODEL("seed_oss", "0.1.0", "Seed-OSS's architecture: Llama's with biases of q, k and v and wide attention",
              SeedOss, SeedOssOptions)

}  // namespace seed_oss
