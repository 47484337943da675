// DeepSeek V2's and V3's architecture (DeepSeek-AI 2024): attention through latents, and mixtures, whose routers are
// sigmoids in V3, with a correction of their choice.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/grouped_router_options.h>
#include <capstan/decoder/latent_options.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace deepseek_v3 {
namespace {

namespace decoder = capstan::decoder;

struct DeepseekV3Options : decoder::LatentOptions, decoder::GroupedRouterOptions {
  std::string model_type = "deepseek_v3";

  bool is_v2() const { return model_type == "deepseek_v2"; }
  static void describe(capstan::config::OptionTable<DeepseekV3Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = DeepseekV3Options;

void DeepseekV3Options::describe(capstan::config::OptionTable<DeepseekV3Options>& t) {
  t.add("model_type", &DeepseekV3Options::model_type)
      .choices({"deepseek_v2", "deepseek_v3"})
      .doc("family of the config.json");
  decoder::describe_rotary_sizes(t, "the feed-forward layer in the first blocks; an expert's is expert_dim");
  decoder::describe_latents(t);
  decoder::describe_grouped_routers(t);
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

capstan::config::Preset attention_and_mixture(capstan::config::Preset mixture, std::int64_t query_rank = 1536) {
  const auto latents = decoder::latent_preset({query_rank, 512, 128, 64, 128});
  mixture.insert(mixture.end(), latents.begin(), latents.end());
  return mixture;
}

constexpr decoder::GroupedSizes mixture_sizes{256, 8, 2048, 3, 8, 4, 2.5};

// The published config.json files' numbers.
capstan::config::Presets DeepseekV3Options::presets() {
  const auto with = [](capstan::config::Preset out, const capstan::config::Preset& more, double mscale) {
    out.insert(out.end(), more.begin(), more.end());
    out.insert(out.end(), {{"rope_type", std::string("yarn")},
                           {"rope_factor", 40.0},
                           {"rope_original_length", std::int64_t{4096}},
                           {"rope_fast_turns", 32.0},
                           {"rope_slow_turns", 1.0},
                           {"rope_mscale", mscale},
                           {"rope_mscale_all", mscale}});
    return out;
  };
  auto lite = attention_and_mixture(decoder::grouped_preset({64, 6, 1408, 1, 1, 1, 1}), 0);
  lite.insert(lite.end(), {{"shared_experts", std::int64_t{2}}, {"normalise_weights", false}});
  return {{"deepseek-v2-lite",
           with(decoder::rotary_preset("deepseek_v2", {102400, 2048, 27, 16, 16, 10944, 163840}, 1e-6, 1e4, false),
                lite, 0.707)},
          {"deepseek-v3",
           with(decoder::rotary_preset("deepseek_v3", {129280, 7168, 61, 128, 128, 18432, 163840}, 1e-6, 1e4, false),
                attention_and_mixture(decoder::grouped_preset(mixture_sizes)), 1)}};
}

capstan::config::Presets DeepseekV3Options::file_defaults() {
  const auto with = [](capstan::config::Preset mixture, std::int64_t length) {
    mixture.insert(mixture.end(), {{"interleaved", true}, {"attention_bias", false}});
    return decoder::rotary_defaults({1e-6, 1e4, length}, attention_and_mixture(std::move(mixture)));
  };
  auto of_v3 = decoder::grouped_defaults(mixture_sizes);
  of_v3.emplace_back("num_kv_heads", std::int64_t{128});
  return {{"deepseek_v2", with({{"num_experts", std::int64_t{64}},
                                {"expert_dim", std::int64_t{1407}},
                                {"shared_experts", std::int64_t{2}},
                                {"dense_blocks", std::int64_t{0}},
                                {"normalise_weights", false}},
                               2048)},
          {"deepseek_v3", with(std::move(of_v3), 4096)}};
}

std::vector<capstan::config::FileKeys> DeepseekV3Options::file_keys() {
  const auto with = [](const std::string& family, const std::vector<capstan::config::FileKey>& routers) {
    return decoder::family_keys(family, decoder::joined({decoder::latent_keys(), routers}));
  };
  return decoder::file_keys({with("deepseek_v2", decoder::grouped_router_keys("softmax", "greedy")),
                             with("deepseek_v3", decoder::grouped_router_keys())});
}

class DeepseekV3 : public decoder::RotaryModel<DeepseekV3Options> {
 public:
  using RotaryModel::RotaryModel;

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_latents(options_, diagnostics);
    decoder::check_rotary_scaling(options_, diagnostics);
    decoder::check_grouped_routers(options_, options_->num_layers, diagnostics);
    const auto& o = *options_;
    if (!o.is_v2()) return;
    if (!options_.is_set(&O::experts_per_token)) {
      diagnostics.add(options_.where(&O::experts_per_token), "model.experts_per_token is not set",
                      "set it, 6 in DeepSeek V2 Lite");
    }
    if (o.expert_groups == 1 && !o.normalise_weights && o.interleaved) return;
    diagnostics.add(options_.where(&O::model_type),
                    "model.model_type is \"deepseek_v2\", whose routers have one group and do not divide weights by "
                    "their sum, and whose numbers that turn together are neighbours",
                    "set expert_groups = 1, normalise_weights = false and interleaved = true");
  }

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    options_->attend(made);
    options_->mix(made);
    if (options_->is_v2()) made.mixture.router.sigmoid = made.mixture.router.correction = false;
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = options_->is_v2() ? "DeepseekV2ForCausalLM" : "DeepseekV3ForCausalLM";
    RotaryModel::describe_files(map);
    decoder::describe_latent_files(*options_, map);
    decoder::describe_grouped_files(*options_, options_->num_layers, map);
    if (options_->is_v2()) map.left_out.insert(map.left_out.end(), {"interleaved", "prediction_layers"});
  }
};

}  // namespace

CAPSTAN_MODEL("deepseek_v3", "0.1.0", "DeepSeek V2's and V3's architecture: attention through latents, and mixtures",
              DeepseekV3, DeepseekV3Options)

}  // namespace deepseek_v3
