// gpt-oss' architecture (OpenAI 2025): Llama's with attention sinks, windows in every other block and biases, and a
// mixture of experts whose gates are clamped.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

#include "clamped_swiglu.h"

namespace gpt_oss {
namespace {

namespace decoder = capstan::decoder;

struct GptOssOptions : decoder::RotaryOptions, decoder::WindowOptions, decoder::RouterOptions {
  GptOssOptions() {
    rms_norm_epsilon = 1e-5;
    rope_theta = 1.5e5;
    sliding_window = 128;
    use_sliding_window = true;
    experts_per_token = 4;
  }
  std::string model_type = "gpt_oss";
  bool attention_bias = true;

  /// What each block is, said or not: the first has a window, the second none, ….
  decoder::WindowOptions windows() const;
  static void describe(capstan::config::OptionTable<GptOssOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

decoder::WindowOptions GptOssOptions::windows() const {
  decoder::WindowOptions made = *this;
  for (std::int64_t i = 0; layer_types.empty() && i < num_layers; ++i)
    made.layer_types.emplace_back(i % 2 == 0 ? "sliding_attention" : "full_attention");
  return made;
}

void GptOssOptions::describe(capstan::config::OptionTable<GptOssOptions>& t) {
  t.add("model_type", &GptOssOptions::model_type).choices({"gpt_oss"}).doc("family of the config.json");
  t.add("attention_bias", &GptOssOptions::attention_bias).doc("biases on q, k, v and the output product");
  decoder::describe_rotary_sizes(t, "an expert");
  decoder::describe_routers(t, "num_local_experts");
  decoder::describe_window(t, "in the blocks that layer_types says");
  decoder::describe_layer_types(t, "by turns when empty, a sliding one first: ");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// With what published models share, and transformers takes where a file does not say it.
capstan::config::Preset with_shared(capstan::config::Preset preset) {
  std::erase_if(preset, [](const auto& item) { return item.first == "rope_type"; });
  preset.insert(preset.end(), {{"head_dim", std::int64_t{64}},
                               {"sliding_window", std::int64_t{128}},
                               {"experts_per_token", std::int64_t{4}},
                               {"rope_type", std::string("yarn")},
                               {"rope_factor", 32.0},
                               {"rope_whole_limits", false},
                               {"rope_original_length", std::int64_t{4096}}});
  return preset;
}

// The published config.json files' numbers.
capstan::config::Presets GptOssOptions::presets() {
  const auto of = [](std::int64_t layers, std::int64_t experts) {
    auto out = decoder::rotary_preset("gpt_oss", {201088, 2880, layers, 64, 8, 2880, 131072}, 1e-5, 1.5e5, false);
    out.insert(out.end(), {{"num_experts", experts}, {"router_aux_loss_coef", 0.9}});
    return with_shared(std::move(out));
  };
  return {{"gpt-oss-20b", of(24, 32)}, {"gpt-oss-120b", of(36, 128)}};
}

capstan::config::Presets GptOssOptions::file_defaults() {
  const capstan::config::Preset own{{"num_kv_heads", std::int64_t{8}}, {"num_experts", std::int64_t{128}}};
  return {{"gpt_oss", with_shared(decoder::rotary_defaults({1e-5, 1.5e5, 131072}, own))}};
}

std::vector<capstan::config::FileKeys> GptOssOptions::file_keys() {
  using Use = capstan::config::FileKey::Use;
  auto keys = decoder::joined({decoder::rotary_keys(), decoder::own_names({"experts_per_token", "router_aux_loss"})});
  keys.push_back({"swiglu_limit", Use::only, "the experts' gates are clamped at 7, as transformers does", {"7"}});
  keys.push_back({"initial_context_length", Use::neutral, "transformers does not read it: rope_scaling says it"});
  return decoder::file_keys({decoder::family_keys("gpt_oss", std::move(keys))});
}

class GptOss : public decoder::RotaryModel<GptOssOptions> {
 public:
  using RotaryModel::RotaryModel;

  void check(capstan::Diagnostics& diagnostics) const override {
    RotaryModel::check(diagnostics);
    decoder::check_routers(options_, diagnostics);
    decoder::check_layer_types(options_, options_->num_layers, diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    made.attention.sinks = true;
    made.attention.window = options_->window();
    made.blocks_without_window = options_->windows().blocks_without_window(options_->num_layers);
    made.qkv_bias = made.projection_bias = options_->attention_bias;
    made.mixture = options_->mixture();
    made.mixture.router_bias = made.mixture.expert_biases = true;
    made.mixture.experts.between = [](const at::Tensor& gate_up, const capstan::ops::GroupBiases& biases) {
      return clamped_swiglu(gate_up, biases, {});
    };
    made.names.router = "mlp.router";
    made.names.expert_parts = {};
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "GptOssForCausalLM";
    RotaryModel::describe_files(map);
    decoder::describe_window_files(*options_, options_->windows(), true, map);
  }
};

}  // namespace

CAPSTAN_MODEL("gpt_oss", "0.1.0", "gpt-oss' architecture: a mixture with attention sinks and clamped gates", GptOss,
              GptOssOptions)

}  // namespace gpt_oss
