// HunYuan's dense architecture (Tencent 2025): Llama's with norms of q and k by head after their rotation, and a base
// of the rotary frequencies that is scaled once for long texts.
#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

#include <cmath>

namespace hunyuan_v1_dense {
namespace {

namespace decoder = capstan::decoder;

struct HunYuanOptions : decoder::RotaryOptions {
  HunYuanOptions() { rms_norm_epsilon = 1e-5; }
  std::string model_type = "hunyuan_v1_dense";
  bool attention_bias = false;
  std::optional<double> rope_alpha;

  bool has_alpha() const { return rope_type == "dynamic"; }
  static void describe(capstan::config::OptionTable<HunYuanOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = HunYuanOptions;

void HunYuanOptions::describe(capstan::config::OptionTable<HunYuanOptions>& t) {
  t.add("model_type", &O::model_type).choices({"hunyuan_v1_dense"}).doc("family of the config.json");
  t.add("attention_bias", &O::attention_bias).doc("biases on q, k, v and the output product");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_rotary_positions(t, {"default", "dynamic"},
                                     "not; rope_theta is multiplied by a power of rope_alpha");
  t.add("rope_alpha", &O::rope_alpha)
      .above(0)
      .spelling("rope_scaling.alpha")
      .spelling("rope_parameters.alpha")
      .doc("dynamic, which requires it: rope_theta is multiplied by this to the power of head_dim / (head_dim - 2)");
  t.add("rope_factor", &O::rope_factor)
      .above(0)
      .spelling("rope_scaling.factor")
      .spelling("rope_parameters.factor")
      .doc("dynamic, which requires it: texts of at most seq_length do not depend on it");
  decoder::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets HunYuanOptions::presets() {
  const auto of = [](const decoder::RotarySizes& sizes) {
    auto out = decoder::rotary_preset("hunyuan_v1_dense", sizes, 1e-5, 1e4, true);
    out.insert(out.end(), {{"head_dim", std::int64_t{128}},
                           {"rope_type", std::string("dynamic")},
                           {"rope_alpha", 1000.0},
                           {"rope_factor", 1.0}});
    return out;
  };
  return {{"hunyuan-0.5b", of({120818, 1024, 24, 16, 8, 3584, 262144})},
          {"hunyuan-1.8b", of({120818, 2048, 32, 16, 4, 6144, 262144})},
          {"hunyuan-4b", of({120818, 3072, 36, 32, 8, 8192, 262144})},
          {"hunyuan-7b", of({128167, 4096, 32, 32, 8, 14336, 262144})}};
}

capstan::config::Presets HunYuanOptions::file_defaults() {
  return {{"hunyuan_v1_dense", decoder::rotary_defaults({.epsilon = 1e-5}, {{"attention_bias", false}})}};
}

std::vector<capstan::config::FileKeys> HunYuanOptions::file_keys() {
  using Use = capstan::config::FileKey::Use;
  auto keys = decoder::rotary_keys();
  keys.push_back({"use_qk_norm", Use::only, "models without norms of q and k are not supported", {"true"}});
  for (const char* name : {"use_cla", "mlp_bias"})
    keys.push_back({name, Use::only, "this is another architecture, which is not supported", {"false"}});
  for (const std::string table : {"rope_scaling.", "rope_parameters."}) {
    for (const char* key : {"beta_fast", "beta_slow", "mscale", "mscale_all_dim"})
      keys.push_back({table + key, Use::neutral, "alpha alone says how this family's positions are scaled"});
  }
  for (const auto& more :
       {decoder::own_names({"rope_alpha"}),
        decoder::neutral_keys({"add_classification_head", "attention_head_dim", "cla_share_factor", "class_num",
                               "dense_list", "eod_token_id", "mask_init_id", "norm_type", "org_vocab_size", "pad_id",
                               "pool_type", "use_rotary_pos_emb"},
                              "transformers does not read it in this family")})
    keys.insert(keys.end(), more.begin(), more.end());
  return decoder::file_keys({decoder::family_keys("hunyuan_v1_dense", std::move(keys))});
}

class HunYuan : public decoder::Model {
 public:
  explicit HunYuan(capstan::config::Options<HunYuanOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_rotary(options_, diagnostics);
    const auto& o = *options_;
    const bool fits = o.has_alpha() ? o.rope_alpha && o.rope_factor && o.dim() > 2 : !o.rope_alpha && !o.rope_factor;
    if (fits) return;
    diagnostics.add(
        options_.where(&O::rope_type),
        capstan::cat("model.rope_type is \"", o.rope_type, "\", which rope_alpha and rope_factor do not fit"),
        "set both where rope_type is \"dynamic\", and heads of more than two numbers, or neither");
  }

 protected:
  decoder::Spec spec() const override {
    auto o = *options_;
    if (o.has_alpha() && o.rope_alpha && o.dim() > 2) {
      const auto dim = static_cast<double>(o.dim());
      o.rope_theta *= std::pow(*o.rope_alpha, dim / (dim - 2));
    }
    auto made = o.spec();
    made.qkv_bias = made.projection_bias = o.attention_bias;
    made.head_norms = decoder::Spec::HeadNorms::each;
    made.norms_after_rotary = true;
    made.names.query_norm = "self_attn.query_layernorm";
    made.names.key_norm = "self_attn.key_layernorm";
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "HunYuanDenseV1ForCausalLM";
    decoder::describe_rotary_files(*options_, map);
    if (!options_->has_alpha()) map.left_out = {"rope_type", "rope_alpha", "rope_factor"};
  }

 private:
  capstan::config::Options<HunYuanOptions> options_;
};

}  // namespace

CAPSTAN_MODEL("hunyuan_v1_dense", "0.1.0", "HunYuan's dense architecture: Llama's with norms of q and k after rotation",
              HunYuan, HunYuanOptions)

}  // namespace hunyuan_v1_dense
