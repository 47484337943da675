// DeepSeek V3's architecture (DeepSeek-AI 2024): attention through latents, and mixtures with sigmoid routers.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/grouped_router_options.h>
#include <capstan/decoder/latent_options.h>
#include <capstan/model.h>

namespace deepseek_v3 {
namespace {

namespace decoder = capstan::decoder;

struct DeepseekV3Options : decoder::LatentOptions, decoder::GroupedRouterOptions {
  std::string model_type = "deepseek_v3";

  static void describe(capstan::config::OptionTable<DeepseekV3Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void DeepseekV3Options::describe(capstan::config::OptionTable<DeepseekV3Options>& t) {
  t.add("model_type", &DeepseekV3Options::model_type).choices({"deepseek_v3"}).doc("family of the config.json");
  decoder::describe_rotary_sizes(t, "the feed-forward layer in the first blocks; an expert's is expert_dim");
  decoder::describe_latents(t);
  decoder::describe_grouped_routers(t);
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

capstan::config::Preset attention_and_mixture(capstan::config::Preset mixture) {
  const auto latents = decoder::latent_preset({1536, 512, 128, 64, 128});
  mixture.insert(mixture.end(), latents.begin(), latents.end());
  return mixture;
}

constexpr decoder::GroupedSizes mixture_sizes{256, 8, 2048, 3, 8, 4, 2.5};

// The published config.json's numbers.
capstan::config::Presets DeepseekV3Options::presets() {
  auto out = decoder::rotary_preset("deepseek_v3", {129280, 7168, 61, 128, 128, 18432, 163840}, 1e-6, 1e4, false);
  const auto more = attention_and_mixture(decoder::grouped_preset(mixture_sizes));
  out.insert(out.end(), more.begin(), more.end());
  out.insert(out.end(), {{"rope_type", std::string("yarn")},
                         {"rope_factor", 40.0},
                         {"rope_original_length", std::int64_t{4096}},
                         {"rope_fast_turns", 32.0},
                         {"rope_slow_turns", 1.0},
                         {"rope_mscale", 1.0},
                         {"rope_mscale_all", 1.0}});
  return {{"deepseek-v3", std::move(out)}};
}

capstan::config::Presets DeepseekV3Options::file_defaults() {
  auto more = attention_and_mixture(decoder::grouped_defaults(mixture_sizes));
  more.insert(more.end(), {{"interleaved", true}, {"attention_bias", false}});
  return {{"deepseek_v3", decoder::rotary_defaults({1e-6, 1e4, 4096}, more)}};
}

std::vector<capstan::config::FileKeys> DeepseekV3Options::file_keys() {
  auto keys = decoder::latent_keys();
  const auto more = decoder::grouped_router_keys();
  keys.insert(keys.end(), more.begin(), more.end());
  return decoder::file_keys({decoder::family_keys("deepseek_v3", std::move(keys))});
}

class DeepseekV3 : public decoder::Model {
 public:
  explicit DeepseekV3(capstan::config::Options<DeepseekV3Options> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_latents(options_, diagnostics);
    decoder::check_rotary_scaling(options_, diagnostics);
    decoder::check_grouped_routers(options_, options_->num_layers, diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    options_->attend(made);
    options_->mix(made);
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "DeepseekV3ForCausalLM";
    decoder::describe_rotary_files(*options_, map);
    decoder::describe_rotary_scaling_files(*options_, map);
    decoder::describe_latent_files(*options_, map);
    decoder::describe_grouped_files(*options_, options_->num_layers, map);
  }

 private:
  capstan::config::Options<DeepseekV3Options> options_;
};

}  // namespace

CAPSTAN_MODEL("deepseek_v3", "0.1.0", "DeepSeek V3's architecture: attention through latents, and sigmoid routers",
              DeepseekV3, DeepseekV3Options)

}  // namespace deepseek_v3
