// dots.llm1's architecture (rednote-hilab 2025): attention with norms of q and k by head, and mixtures as DeepSeek V3
// has them.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/grouped_router_options.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace dots1 {
namespace {

namespace decoder = capstan::decoder;

struct Dots1Options : decoder::RotaryOptions, decoder::GroupedRouterOptions, decoder::WindowOptions {
  Dots1Options() {
    max_window_layers = 62;
    use_sliding_window = true;  // no option: sliding_window says it
  }
  std::string model_type = "dots1";
  bool attention_bias = false;

  static void describe(capstan::config::OptionTable<Dots1Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = Dots1Options;

void Dots1Options::describe(capstan::config::OptionTable<Dots1Options>& t) {
  t.add("model_type", &O::model_type).choices({"dots1"}).doc("family of the config.json");
  t.add("attention_bias", &O::attention_bias).doc("biases on q, k, v and the output product");
  decoder::describe_rotary_sizes(t, "the feed-forward layer in the first blocks; an expert's is expert_dim");
  decoder::describe_grouped_routers(t);
  decoder::describe_window(t, "in the blocks that layer_types says");
  t.add("max_window_layers", &O::max_window_layers)
      .min(0)
      .doc("the first block that sliding_window limits, where layer_types is empty");
  decoder::describe_layer_types(t);
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// The published config.json's numbers.
capstan::config::Presets Dots1Options::presets() {
  auto out = decoder::rotary_preset("dots1", {152064, 4096, 62, 32, 32, 10944, 32768}, 1e-5, 1e7, false);
  const auto more = decoder::grouped_preset({128, 6, 1408, 1, 1, 1, 2.5});
  out.insert(out.end(), more.begin(), more.end());
  out.emplace_back("shared_experts", std::int64_t{2});
  return {{"dots.llm1", std::move(out)}};
}

// transformers has none for the numbers of experts.
capstan::config::Presets Dots1Options::file_defaults() {
  return {{"dots1", decoder::rotary_defaults({}, {{"num_kv_heads", std::int64_t{32}},
                                                  {"attention_bias", false},
                                                  {"expert_dim", std::int64_t{1408}},
                                                  {"expert_groups", std::int64_t{1}},
                                                  {"groups_per_token", std::int64_t{1}},
                                                  {"dense_blocks", std::int64_t{0}},
                                                  {"normalise_weights", false},
                                                  {"weights_scale", 1.0},
                                                  {"prediction_layers", std::int64_t{0}},
                                                  {"sliding_window", std::int64_t{4096}},
                                                  {"max_window_layers", std::int64_t{62}}})}};
}

std::vector<capstan::config::FileKeys> Dots1Options::file_keys() {
  return decoder::file_keys({decoder::family_keys(
      "dots1", decoder::joined(
                   {decoder::rotary_keys(), decoder::grouped_router_keys(),
                    decoder::neutral_keys({"use_sliding_window"}, "transformers does not read it in this family")}))});
}

class Dots1 : public decoder::RotaryModel<Dots1Options> {
 public:
  using RotaryModel::RotaryModel;

  void check(capstan::Diagnostics& diagnostics) const override {
    RotaryModel::check(diagnostics);
    decoder::check_grouped_routers(options_, options_->num_layers, diagnostics);
    if (!options_.is_set(&O::experts_per_token)) {
      diagnostics.add(options_.where(&O::experts_per_token), "model.experts_per_token is not set",
                      "set it, 6 in dots.llm1");
    }
    decoder::check_window(options_, *options_, diagnostics);
    decoder::check_layer_types(options_, options_->num_layers, diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    o.mix(made);
    made.qkv_bias = made.projection_bias = o.attention_bias;
    made.head_norms = decoder::Spec::HeadNorms::each;
    made.attention.window = o.window();
    made.blocks_without_window = o.blocks_without_window(o.num_layers);
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "Dots1ForCausalLM";
    RotaryModel::describe_files(map);
    decoder::describe_grouped_files(*options_, options_->num_layers, map);
    decoder::describe_window_files(*options_, *options_, true, map);
    if (!options_->sliding_window) map.more["sliding_window"] = "null";
  }
};

}  // namespace

CAPSTAN_MODEL("dots1", "0.1.0", "dots.llm1's architecture: norms of q and k, and sigmoid routers", Dots1, Dots1Options)

}  // namespace dots1
