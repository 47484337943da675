// OLMo 3's architecture (OLMo team 2025): OLMo 2's, with a window in three blocks of four, and scaled positions only in
// the others.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_options.h>
#include <capstan/model.h>

namespace olmo3 {
namespace {

namespace decoder = capstan::decoder;

// transformers 5's tables of OLMo 3's rotary positions.
const std::string full_rope = "rope_parameters.full_attention.", sliding_rope = "rope_parameters.sliding_attention.";

struct Olmo3Options : decoder::RotaryOptions, decoder::WindowOptions {
  Olmo3Options() {
    rms_norm_epsilon = 1e-6;
    rope_theta = 5e5;
    use_sliding_window = true;  // no option: layer_types says it
  }
  std::string model_type = "olmo3";
  bool attention_bias = false;

  decoder::WindowOptions windows() const { return completed(num_layers, /*global_every=*/4); }
  static void describe(capstan::config::OptionTable<Olmo3Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void Olmo3Options::describe(capstan::config::OptionTable<Olmo3Options>& t) {
  t.add("model_type", &Olmo3Options::model_type).choices({"olmo3"}).doc("family of the config.json");
  t.add("attention_bias", &Olmo3Options::attention_bias).doc("biases on q, k, v and the output product");
  decoder::describe_window(t, "in the blocks that layer_types says");
  decoder::describe_layer_types(t, "three blocks of four have sliding_attention when not set; ");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_rotary_scaling(t, full_rope, sliding_rope);
  decoder::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets Olmo3Options::presets() {
  const auto olmo3 = [](const decoder::RotarySizes& sizes) {
    auto out = decoder::rotary_preset("olmo3", sizes, 1e-6, 5e5, false);
    out.insert(out.end(), {{"sliding_window", std::int64_t{4096}},
                           {"rope_type", std::string("yarn")},
                           {"rope_factor", 8.0},
                           {"rope_original_length", std::int64_t{8192}}});
    return out;
  };
  return {{"olmo3-7b", olmo3({100278, 4096, 32, 32, 32, 11008, 65536})},
          {"olmo3-32b", olmo3({100278, 5120, 64, 40, 8, 27648, 65536})}};
}

capstan::config::Presets Olmo3Options::file_defaults() {
  return {{"olmo3", decoder::rotary_defaults({.epsilon = 1e-5, .theta = 5e5},
                                             {{"attention_bias", false}, {"sliding_window", std::int64_t{4096}}})}};
}

std::vector<capstan::config::FileKeys> Olmo3Options::file_keys() {
  auto keys = decoder::rotary_keys({}, full_rope);
  keys.push_back({sliding_rope + "rope_type",
                  capstan::config::FileKey::Use::only,
                  "blocks with a window and scaled positions are not supported",
                  {"\"default\""}});
  return decoder::file_keys({decoder::family_keys("olmo3", std::move(keys))});
}

class Olmo3 : public decoder::Model {
 public:
  explicit Olmo3(capstan::config::Options<Olmo3Options> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_rotary(options_, diagnostics);
    decoder::check_rotary_scaling(options_, diagnostics);
    decoder::check_window(options_, options_->windows(), diagnostics);
    decoder::check_layer_types(options_, options_->num_layers, diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.norm_before = false;
    made.norm_after = true;
    made.head_norms = decoder::Spec::HeadNorms::all;
    made.qkv_bias = made.projection_bias = o.attention_bias;
    made.names.attention_post_norm = "post_attention_layernorm";
    made.names.mlp_post_norm = "post_feedforward_layernorm";
    made.attention.window = o.window();
    made.blocks_without_window = o.windows().blocks_without_window(o.num_layers);
    made.vary = [o, full = made.blocks_without_window](decoder::Spec& block, std::int64_t index) {
      if (full.contains(index)) return;
      block.rotary = capstan::nn::Rotary(o.dim(), o.rope_theta, {});
      block.attention.scale.reset();  // YaRN's factor, which comes with its positions
    };
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    const auto& o = *options_;
    map.architecture = "Olmo3ForCausalLM";
    decoder::describe_rotary_files(o, map);
    decoder::describe_rotary_scaling_files(o, map);
    decoder::describe_window_files(o, o.windows(), true, map);
    // transformers 5.17 reads an older file's base only for full attention, and takes 5e5 for the others.
    if (o.rope_theta == 5e5) return;
    map.more["rope_parameters.full_attention"] = decoder::rope_table(o, /*is_scaled=*/true);
    map.more["rope_parameters.sliding_attention"] = decoder::rope_table(o, /*is_scaled=*/false);
  }

 private:
  capstan::config::Options<Olmo3Options> options_;
};

}  // namespace

CAPSTAN_MODEL("olmo3", "0.1.0",
              "OLMo 3's architecture: OLMo 2's with windows, and scaled positions in the blocks without one", Olmo3,
              Olmo3Options)

}  // namespace olmo3
