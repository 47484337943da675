// GLM-4.7-Flash's architecture (Z.ai 2026): DeepSeek V3's attention through latents, routers and experts, in blocks
// that a list may choose.
#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/grouped_router_options.h>
#include <capstan/decoder/latent_options.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace glm4_moe_lite {
namespace {

namespace decoder = capstan::decoder;

struct Glm4MoeLiteOptions : decoder::LatentOptions, decoder::GroupedRouterOptions {
  Glm4MoeLiteOptions() { rms_norm_epsilon = 1e-5; }
  std::string model_type = "glm4_moe_lite";
  std::vector<std::string> mlp_layer_types;

  static void describe(capstan::config::OptionTable<Glm4MoeLiteOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = Glm4MoeLiteOptions;

void Glm4MoeLiteOptions::describe(capstan::config::OptionTable<Glm4MoeLiteOptions>& t) {
  t.add("model_type", &O::model_type).choices({"glm4_moe_lite"}).doc("family of the config.json");
  decoder::describe_rotary_sizes(t, "the feed-forward layer in blocks without experts; an expert's is expert_dim");
  decoder::describe_latents(t);
  decoder::describe_grouped_routers(t);
  t.add("mlp_layer_types", &O::mlp_layer_types)
      .doc(R"("sparse" for each block with experts, else "dense", in place of dense_blocks)");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

capstan::config::Preset attention_and_mixture(capstan::config::Preset mixture) {
  const auto latents = decoder::latent_preset({768, 512, 192, 64, 256});
  mixture.insert(mixture.end(), latents.begin(), latents.end());
  return mixture;
}

constexpr decoder::GroupedSizes mixture_sizes{64, 4, 1536, 1, 1, 1, 1.8};

// The published config.json's numbers.
capstan::config::Presets Glm4MoeLiteOptions::presets() {
  auto out = decoder::rotary_preset("glm4_moe_lite", {154880, 2048, 47, 20, 20, 10240, 202752}, 1e-5, 1e6, false);
  const auto more = attention_and_mixture(decoder::grouped_preset(mixture_sizes));
  out.insert(out.end(), more.begin(), more.end());
  return {{"glm-4.7-flash", std::move(out)}};
}

capstan::config::Presets Glm4MoeLiteOptions::file_defaults() {
  auto more = attention_and_mixture(decoder::grouped_defaults(mixture_sizes));
  more.insert(more.end(), {{"num_kv_heads", std::int64_t{20}}, {"interleaved", true}, {"attention_bias", false}});
  return {{"glm4_moe_lite", decoder::rotary_defaults({1e-5, 1e4, 202752}, more)}};
}

std::vector<capstan::config::FileKeys> Glm4MoeLiteOptions::file_keys() {
  return decoder::file_keys({decoder::family_keys(
      "glm4_moe_lite", decoder::joined({decoder::latent_keys(), decoder::grouped_router_keys(),
                                        decoder::only_keys({"first_k_dense_replace"}, "1",
                                                           "transformers goes by mlp_layer_types alone")}))});
}

class Glm4MoeLite : public decoder::RotaryModel<Glm4MoeLiteOptions> {
 public:
  using RotaryModel::RotaryModel;

  void check(capstan::Diagnostics& diagnostics) const override {
    const auto& o = *options_;
    const auto& types = o.mlp_layer_types;
    const auto where = options_.where(&O::mlp_layer_types);
    decoder::check_latents(options_, diagnostics);
    decoder::check_rotary_scaling(options_, diagnostics);
    decoder::check_grouped_routers(options_, o.num_layers, diagnostics);
    if (!types.empty() && static_cast<std::int64_t>(types.size()) != o.num_layers) {
      diagnostics.add(
          where,
          capstan::cat("model.mlp_layer_types has ", types.size(), " entries, but model.num_layers is ", o.num_layers),
          "give one for each block, or remove it");
    }
    for (const auto& type : types) {
      if (type == "sparse" || type == "dense") continue;
      diagnostics.add(where, capstan::cat("model.mlp_layer_types has \"", type, "\""),
                      R"(use "sparse" and "dense"; there are no others)");
      return;
    }
  }

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    options_->attend(made);
    options_->mix(made);
    const auto& types = options_->mlp_layer_types;
    if (types.empty()) return made;
    made.mixture.dense_blocks.clear();
    for (std::size_t i = 0; i < types.size(); ++i)
      if (types[i] == "dense") made.mixture.dense_blocks.insert(static_cast<std::int64_t>(i));
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    const auto& o = *options_;
    map.architecture = "Glm4MoeLiteForCausalLM";
    RotaryModel::describe_files(map);
    decoder::describe_latent_files(o, map);
    decoder::describe_grouped_files(o, o.num_layers, map);
    map.left_out.insert(map.left_out.end(), {"mlp_layer_types", "dense_blocks"});
    const auto dense = spec().mixture.dense_blocks;
    std::string types;
    for (std::int64_t i = 0; i < o.num_layers; ++i)
      types += capstan::cat(i == 0 ? "[" : ", ", dense.contains(i) ? "\"dense\"" : "\"sparse\"");
    map.more["mlp_layer_types"] = types + "]";
  }
};

}  // namespace

CAPSTAN_MODEL("glm4_moe_lite", "0.1.0",
              "GLM-4.7-Flash's architecture: DeepSeek V3's attention through latents and sigmoid routers", Glm4MoeLite,
              Glm4MoeLiteOptions)

}  // namespace glm4_moe_lite
