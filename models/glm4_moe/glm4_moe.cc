// GLM 4's mixtures, GLM-4.5 to 4.6 (GLM-4.5 team 2025): DeepSeek V3's routers and experts, and Llama's attention, of
// whose heads a part turns, with norms of q and k in the larger one.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/grouped_router_options.h>
#include <capstan/decoder/rotary_options.h>
#include <capstan/model.h>

namespace glm4_moe {
namespace {

namespace decoder = capstan::decoder;

struct Glm4MoeOptions : decoder::RotaryOptions, decoder::GroupedRouterOptions {
  Glm4MoeOptions() {
    rms_norm_epsilon = 1e-5;
    partial_rotary_factor = 0.5;
  }
  std::string model_type = "glm4_moe";
  bool attention_bias = false;
  bool head_norms = false;

  static void describe(capstan::config::OptionTable<Glm4MoeOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void Glm4MoeOptions::describe(capstan::config::OptionTable<Glm4MoeOptions>& t) {
  t.add("model_type", &Glm4MoeOptions::model_type).choices({"glm4_moe"}).doc("family of the config.json");
  decoder::describe_rotary_sizes(t, "the feed-forward layer in the first blocks; an expert's is expert_dim");
  decoder::describe_grouped_routers(t);
  t.add("attention_bias", &Glm4MoeOptions::attention_bias).doc("biases on q, k and v");
  t.add("head_norms", &Glm4MoeOptions::head_norms).spelling("use_qk_norm").doc("RMS norms of q and k by head");
  decoder::describe_partial_rotary(t);
  decoder::describe_rotary_positions(t, {"default"}, "not");
  decoder::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets Glm4MoeOptions::presets() {
  const auto preset = [](const decoder::RotarySizes& sizes, const decoder::GroupedSizes& mixture, bool norms) {
    auto out = decoder::rotary_preset("glm4_moe", sizes, 1e-5, 1e6, false);
    out.insert(out.end(), {{"head_dim", std::int64_t{128}}, {"attention_bias", true}, {"head_norms", norms}});
    const auto more = decoder::grouped_preset(mixture);
    out.insert(out.end(), more.begin(), more.end());
    return out;
  };
  const decoder::GroupedSizes large{160, 8, 1536, 3, 1, 1, 2.5}, small{128, 8, 1408, 1, 1, 1, 1};
  return {{"glm-4.5", preset({151552, 5120, 92, 96, 8, 12288, 131072}, large, true)},
          {"glm-4.5-air", preset({151552, 4096, 46, 96, 8, 10944, 131072}, small, false)},
          {"glm-4.6", preset({151552, 5120, 92, 96, 8, 12288, 202752}, large, true)}};
}

capstan::config::Presets Glm4MoeOptions::file_defaults() {
  auto more = decoder::grouped_defaults({128, 8, 1408, 1, 1, 1, 1});
  more.insert(more.end(), {{"num_kv_heads", std::int64_t{8}},
                           {"attention_bias", false},
                           {"head_norms", false},
                           {"partial_rotary_factor", 0.5}});
  return {{"glm4_moe", decoder::rotary_defaults({1e-5, 1e4, 131072}, more)}};
}

std::vector<capstan::config::FileKeys> Glm4MoeOptions::file_keys() {
  return decoder::file_keys({decoder::family_keys(
      "glm4_moe", decoder::joined({decoder::rotary_keys({"partial_rotary_factor"}), decoder::grouped_router_keys(),
                                   decoder::own_names({"head_norms"})}))});
}

class Glm4Moe : public decoder::Model {
 public:
  explicit Glm4Moe(capstan::config::Options<Glm4MoeOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_rotary(options_, diagnostics);
    decoder::check_grouped_routers(options_, options_->num_layers, diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    options_->mix(made);
    made.qkv_bias = options_->attention_bias;
    if (options_->head_norms) made.head_norms = decoder::Spec::HeadNorms::each;
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "Glm4MoeForCausalLM";
    map.left_out = {"rope_type"};
    decoder::describe_rotary_files(*options_, map);
    decoder::describe_grouped_files(*options_, options_->num_layers, map);
  }

 private:
  capstan::config::Options<Glm4MoeOptions> options_;
};

}  // namespace

CAPSTAN_MODEL("glm4_moe", "0.1.0",
              "GLM 4's mixtures: Llama's attention, of whose heads a part turns, and sigmoid routers", Glm4Moe,
              Glm4MoeOptions)

}  // namespace glm4_moe
