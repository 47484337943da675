// Ministral's architecture (Mistral AI 2024): Mistral's with a window in the blocks that a list names. Ministral 3 is
// another family.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_options.h>
#include <capstan/model.h>

namespace ministral {
namespace {

namespace decoder = capstan::decoder;

struct MinistralOptions : decoder::RotaryOptions, decoder::WindowOptions {
  MinistralOptions() {
    use_sliding_window = true;  // no option: layer_types says it
    max_window_layers = 0;      // where layer_types is empty, all blocks have the window
  }
  std::string model_type = "ministral";

  static void describe(capstan::config::OptionTable<MinistralOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void MinistralOptions::describe(capstan::config::OptionTable<MinistralOptions>& t) {
  t.add("model_type", &MinistralOptions::model_type).choices({"ministral"}).doc("family of the config.json");
  decoder::describe_window(t, "in the blocks that layer_types says");
  decoder::describe_layer_types(t, "all blocks have sliding_attention when not set; ");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// Ministral 8B of 2024 is published as a mistral, which plugin llama reads; folders that have the list are ministrals.
capstan::config::Presets MinistralOptions::presets() { return {}; }

capstan::config::Presets MinistralOptions::file_defaults() {
  return {{"ministral", decoder::rotary_defaults({.length = 131072}, {{"num_kv_heads", std::int64_t{8}},
                                                                      {"sliding_window", std::int64_t{4096}}})}};
}

std::vector<capstan::config::FileKeys> MinistralOptions::file_keys() {
  return decoder::file_keys({decoder::family_keys("ministral", decoder::rotary_keys())});
}

class Ministral : public decoder::Model {
 public:
  explicit Ministral(capstan::config::Options<MinistralOptions> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_rotary(options_, diagnostics);
    decoder::check_rotary_scaling(options_, diagnostics);
    decoder::check_layer_types(options_, options_->num_layers, diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.attention.window = o.window();
    made.blocks_without_window = o.blocks_without_window(o.num_layers);
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "MinistralForCausalLM";
    decoder::describe_rotary_files(*options_, map);
    decoder::describe_rotary_scaling_files(*options_, map);
    decoder::describe_window_files(*options_, *options_, true, map);
  }

 private:
  capstan::config::Options<MinistralOptions> options_;
};

}  // namespace

CAPSTAN_MODEL("ministral", "0.1.0", "Ministral's architecture: Mistral's with a window in some blocks", Ministral,
              MinistralOptions)

}  // namespace ministral
