// Cohere's architecture (Command R, Aya; Cohere 2: Command R7B and A): attention and feed-forward layer side by side
// after one norm without a bias, heads that turn in pairs, scaled logits; in Cohere 2 windows, and no rotary positions
// in the other blocks.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace cohere {
namespace {

namespace decoder = capstan::decoder;

struct CohereOptions : decoder::RotaryOptions, decoder::WindowOptions {
  CohereOptions() {
    rms_norm_epsilon = 1e-5;
    tie_word_embeddings = true;
    use_sliding_window = true;  // no option: model_type says it
  }
  std::string model_type = "cohere2";
  double logit_scale = 0.0625;
  std::int64_t global_every = 4;
  bool attention_bias = false;

  bool has_windows() const { return model_type == "cohere2"; }
  decoder::WindowOptions windows() const { return completed(num_layers, global_every); }
  static void describe(capstan::config::OptionTable<CohereOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = CohereOptions;

void CohereOptions::describe(capstan::config::OptionTable<CohereOptions>& t) {
  t.add("model_type", &O::model_type)
      .choices({"cohere", "cohere2"})
      .doc("family of the config.json; cohere2 has windows and blocks without rotary positions");
  t.add("logit_scale", &O::logit_scale).above(0).doc("multiplies the logits");
  t.add("attention_bias", &O::attention_bias).doc("biases on q, k, v and the output product");
  decoder::describe_window(t, "cohere2, in the blocks that layer_types says; the others have no rotary positions");
  decoder::describe_layer_types(t, "cohere2: ");
  t.add("global_every", &O::global_every)
      .min(1)
      .spelling("sliding_window_pattern")
      .doc("where layer_types is empty: every n-th block has full_attention");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t, "silu", "hidden_act", "layer_norm_eps");
}

// The published config.json files' numbers.
capstan::config::Presets CohereOptions::presets() {
  const auto of = [](const char* type, const decoder::RotarySizes& sizes, double theta, double scale) {
    auto out = decoder::rotary_preset(type, sizes, 1e-5, theta, true);
    out.emplace_back("logit_scale", scale);
    if (type == std::string("cohere2")) out.emplace_back("sliding_window", std::int64_t{4096});
    return out;
  };
  return {{"command-r-v01", of("cohere", {256000, 8192, 40, 64, 64, 22528, 8192}, 8e6, 0.0625)},
          {"command-r-08-2024", of("cohere", {256000, 8192, 40, 64, 8, 24576, 131072}, 4e6, 0.0625)},
          {"aya-expanse-8b", of("cohere", {256000, 4096, 32, 32, 8, 14336, 8192}, 1e4, 0.125)},
          {"command-r7b", of("cohere2", {256000, 4096, 32, 32, 8, 14336, 132096}, 5e4, 0.25)},
          {"command-a", of("cohere2", {256000, 12288, 64, 96, 8, 36864, 131072}, 5e4, 0.25)}};
}

capstan::config::Presets CohereOptions::file_defaults() {
  const auto with = [](double theta, capstan::config::Preset more) {
    more.insert(more.end(), {{"logit_scale", 0.0625}, {"attention_bias", false}});
    return decoder::rotary_defaults({.epsilon = 1e-5, .theta = theta, .length = 8192, .tied = true}, more);
  };
  return {{"cohere", with(5e5, {})},
          {"cohere2", with(1e4, {{"sliding_window", std::int64_t{4096}}, {"global_every", std::int64_t{4}}})}};
}

std::vector<capstan::config::FileKeys> CohereOptions::file_keys() {
  using Use = capstan::config::FileKey::Use;
  auto keys = decoder::rotary_keys();
  keys.push_back({"use_qk_norm", Use::only, "models with layer norms of q and k are not supported", {"false"}});
  for (const auto& more :
       {decoder::own_names({"global_every"}),
        decoder::neutral_keys({"layer_switch", "order_of_interleaved_layers", "position_embedding_type", "rotary_pct",
                               "use_embedding_sharing", "use_gated_activation", "use_parallel_block",
                               "use_parallel_embedding", "_sliding_window_pattern"},
                              "transformers does not read it in this family")})
    keys.insert(keys.end(), more.begin(), more.end());
  auto without = keys;
  for (auto& key :
       decoder::neutral_keys({"sliding_window", "layer_types", "sliding_window_pattern"}, "this family has no windows"))
    without.push_back(std::move(key));
  return decoder::file_keys({decoder::family_keys("cohere", without), decoder::family_keys("cohere2", keys)});
}

class Cohere : public decoder::RotaryModel<CohereOptions> {
 public:
  using RotaryModel::RotaryModel;

  void check(capstan::Diagnostics& diagnostics) const override {
    RotaryModel::check(diagnostics);
    if (!options_->has_windows()) {
      if (!options_->sliding_window && options_->layer_types.empty()) return;
      const auto where =
          options_->sliding_window ? options_.where(&O::sliding_window) : options_.where(&O::layer_types);
      diagnostics.add(where, "model.sliding_window or layer_types is set, but cohere has no windows",
                      "set model_type = \"cohere2\", or remove it");
      return;
    }
    decoder::check_window(options_, options_->windows(), diagnostics);
    decoder::check_layer_types(options_, options_->num_layers, diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.norm = decoder::Spec::Norm::layer;
    made.norm_bias = false;
    made.parallel = made.one_norm = true;
    made.rotary = o.rotary({.interleaved = true});
    made.logits_multiplier = o.logit_scale;
    made.qkv_bias = made.projection_bias = o.attention_bias;
    if (!o.has_windows()) return made;
    made.attention.window = o.window();
    made.blocks_without_window = o.windows().blocks_without_window(o.num_layers);
    made.blocks_without_rotary = made.blocks_without_window;
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = options_->has_windows() ? "Cohere2ForCausalLM" : "CohereForCausalLM";
    RotaryModel::describe_files(map);
    decoder::describe_window_files(*options_, options_->windows(), options_->has_windows(), map);
    map.left_out.emplace_back("global_every");
    if (!options_->has_windows()) map.left_out.emplace_back("sliding_window");
  }
};

}  // namespace

CAPSTAN_MODEL("cohere", "0.1.0",
              "Cohere's architecture (Command R, Aya): one norm for layers side by side, scaled logits", Cohere,
              CohereOptions)

}  // namespace cohere
