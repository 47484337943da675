// SmolLM 3's architecture (Hugging Face 2025): Llama's with some blocks that have no rotary positions.
#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_options.h>
#include <capstan/model.h>

namespace smollm3 {
namespace {

namespace decoder = capstan::decoder;

struct SmolLm3Options : decoder::RotaryOptions, decoder::WindowOptions {
  SmolLm3Options() {
    rope_theta = 2e6;
    tie_word_embeddings = true;
  }
  std::string model_type = "smollm3";
  std::vector<std::int64_t> no_rope_layers;
  std::int64_t no_rope_layer_interval = 4;
  bool attention_bias = false;
  bool mlp_bias = false;

  bool has_rotary(std::int64_t block) const {
    const auto at = static_cast<std::size_t>(block);  // check refuses a list that is too short
    return at < no_rope_layers.size() ? no_rope_layers[at] != 0 : (block + 1) % no_rope_layer_interval != 0;
  }
  /// With a type for each block: without layer_types those without rotary positions have the window.
  decoder::WindowOptions windows() const;
  static void describe(capstan::config::OptionTable<SmolLm3Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

decoder::WindowOptions SmolLm3Options::windows() const {
  decoder::WindowOptions made = *this;
  for (auto i = static_cast<std::int64_t>(layer_types.size()); i < num_layers; ++i)
    made.layer_types.emplace_back(has_rotary(i) ? "full_attention" : "sliding_attention");
  return made;
}

void SmolLm3Options::describe(capstan::config::OptionTable<SmolLm3Options>& t) {
  t.add("model_type", &SmolLm3Options::model_type).choices({"smollm3"}).doc("family of the config.json");
  t.add("no_rope_layers", &SmolLm3Options::no_rope_layers).doc("1 for each block with rotary positions, else 0");
  t.add("no_rope_layer_interval", &SmolLm3Options::no_rope_layer_interval)
      .min(1)
      .doc("where no_rope_layers is empty: every n-th block has no rotary positions");
  t.add("attention_bias", &SmolLm3Options::attention_bias).doc("biases on q, k, v and the output product");
  t.add("mlp_bias", &SmolLm3Options::mlp_bias).doc("biases in the feed-forward layer");
  decoder::describe_window(t, "in the blocks that layer_types says, or else in those without rotary positions");
  t.add("use_sliding_window", &SmolLm3Options::use_sliding_window).doc("whether sliding_window is in use");
  decoder::describe_layer_types(t);
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// The published config.json's numbers.
capstan::config::Presets SmolLm3Options::presets() {
  return {{"smollm3-3b", decoder::rotary_preset("smollm3", {128256, 2048, 36, 16, 4, 11008, 65536}, 1e-6, 5e6, true)}};
}

capstan::config::Presets SmolLm3Options::file_defaults() {
  return {{"smollm3", decoder::rotary_defaults({.theta = 2e6, .length = 32768, .tied = true},
                                               {{"num_kv_heads", std::int64_t{4}},
                                                {"no_rope_layer_interval", std::int64_t{4}},
                                                {"use_sliding_window", false},
                                                {"attention_bias", false},
                                                {"mlp_bias", false}})}};
}

std::vector<capstan::config::FileKeys> SmolLm3Options::file_keys() {
  return decoder::file_keys({decoder::family_keys(
      "smollm3", decoder::joined({decoder::neutral_keys({"max_window_layers"}, "transformers goes by layer_types"),
                                  decoder::rotary_keys()}))});
}

class SmolLm3 : public decoder::Model {
 public:
  explicit SmolLm3(capstan::config::Options<SmolLm3Options> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    const auto& o = *options_;
    decoder::check_rotary(options_, diagnostics);
    decoder::check_rotary_scaling(options_, diagnostics);
    decoder::check_window(options_, o.windows(), diagnostics);
    decoder::check_layer_types(options_, o.num_layers, diagnostics);
    if (o.no_rope_layers.empty() || static_cast<std::int64_t>(o.no_rope_layers.size()) >= o.num_layers) return;
    diagnostics.add(options_.where(&SmolLm3Options::no_rope_layers),
                    capstan::cat("model.no_rope_layers has ", o.no_rope_layers.size(),
                                 " entries, but model.num_layers is ", o.num_layers),
                    "give one for each block, or remove it");
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.qkv_bias = made.projection_bias = o.attention_bias;
    made.mlp_bias = o.mlp_bias;
    if (o.use_sliding_window.value_or(false)) made.attention.window = o.window();
    made.blocks_without_window = o.windows().blocks_without_window(o.num_layers);
    for (std::int64_t i = 0; i < o.num_layers; ++i) {
      if (!o.has_rotary(i)) made.blocks_without_rotary.insert(i);
    }
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    const auto& o = *options_;
    map.architecture = "SmolLM3ForCausalLM";
    if (o.no_rope_layers.empty()) map.left_out.emplace_back("no_rope_layers");
    decoder::describe_rotary_files(o, map);
    decoder::describe_rotary_scaling_files(o, map);
    decoder::describe_window_files(o, o.windows(), true, map);
  }

 private:
  capstan::config::Options<SmolLm3Options> options_;
};

}  // namespace

CAPSTAN_MODEL("smollm3", "0.1.0", "SmolLM 3's architecture: Llama's with blocks that have no rotary positions", SmolLm3,
              SmolLm3Options)

}  // namespace smollm3
