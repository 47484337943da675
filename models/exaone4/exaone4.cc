// EXAONE 4's architecture (LG AI Research 2025): norms after its layers and of q and k by head; where it has a window,
// the blocks without one have no rotary positions.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace exaone4 {
namespace {

namespace decoder = capstan::decoder;

struct Exaone4Options : decoder::RotaryOptions, decoder::WindowOptions {
  Exaone4Options() {
    rms_norm_epsilon = 1e-5;
    rope_theta = 1e6;
    use_sliding_window = true;  // no option: sliding_window says it
  }
  std::string model_type = "exaone4";

  decoder::WindowOptions windows() const { return completed(num_layers, sliding_window ? 4 : 1); }
  static void describe(capstan::config::OptionTable<Exaone4Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void Exaone4Options::describe(capstan::config::OptionTable<Exaone4Options>& t) {
  t.add("model_type", &Exaone4Options::model_type).choices({"exaone4"}).doc("family of the config.json");
  decoder::describe_window(t, "in the blocks that layer_types says; the others then have no rotary positions");
  decoder::describe_layer_types(t, "three blocks of four have sliding_attention when not set, if there is a window; ");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets Exaone4Options::presets() {
  const auto of = [](const decoder::RotarySizes& sizes, bool tied, double factor) {
    auto out = decoder::rotary_preset("exaone4", sizes, 1e-5, 1e6, tied);
    out.insert(out.end(), {{"rope_type", std::string("llama3")},
                           {"rope_factor", factor},
                           {"rope_low_frequency_factor", 1.0},
                           {"rope_high_frequency_factor", 4.0},
                           {"rope_original_length", std::int64_t{8192}}});
    return out;
  };
  auto large = of({102400, 5120, 64, 40, 8, 27392, 131072}, false, 16);
  large.emplace_back("sliding_window", std::int64_t{4096});
  return {{"exaone4-1.2b", of({102400, 2048, 30, 32, 8, 4096, 65536}, true, 16)}, {"exaone4-32b", std::move(large)}};
}

capstan::config::Presets Exaone4Options::file_defaults() {
  return {{"exaone4", decoder::rotary_defaults({.epsilon = 1e-5}, {{"num_kv_heads", std::int64_t{32}},
                                                                   {"sliding_window", std::int64_t{4096}}})}};
}

std::vector<capstan::config::FileKeys> Exaone4Options::file_keys() {
  auto keys = decoder::rotary_keys();
  keys.push_back({"sliding_window_pattern",
                  capstan::config::FileKey::Use::only,
                  "layer_types says which blocks have the window",
                  {"4", "\"LLLG\"", "0"}});
  return decoder::file_keys({decoder::family_keys("exaone4", std::move(keys))});
}

class Exaone4 : public decoder::RotaryModel<Exaone4Options> {
 public:
  using RotaryModel::RotaryModel;

  void check(capstan::Diagnostics& diagnostics) const override {
    RotaryModel::check(diagnostics);
    decoder::check_window(options_, options_->windows(), diagnostics);
    decoder::check_layer_types(options_, options_->num_layers, diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.norm_before = false;
    made.norm_after = true;
    made.head_norms = decoder::Spec::HeadNorms::each;
    made.names.attention_post_norm = "post_attention_layernorm";
    made.names.mlp_post_norm = "post_feedforward_layernorm";
    if (!o.sliding_window) return made;
    made.attention.window = o.window();
    made.blocks_without_window = o.windows().blocks_without_window(o.num_layers);
    made.blocks_without_rotary = made.blocks_without_window;
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "Exaone4ForCausalLM";
    RotaryModel::describe_files(map);
    decoder::describe_window_files(*options_, options_->windows(), true, map);
    if (!options_->sliding_window) map.more["sliding_window"] = "null";
  }
};

}  // namespace

CAPSTAN_MODEL("exaone4", "0.1.0",
              "EXAONE 4's architecture: norms after its layers, rotary positions where its window is", Exaone4,
              Exaone4Options)

}  // namespace exaone4
