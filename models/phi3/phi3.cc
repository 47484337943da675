// Phi-3's and Phi-4's architecture (Abdin et al. 2024): Llama's with fused products in its files, LongRoPE, rotary
// positions of part of each head and a window where the options say so.
#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/layer_norm_options.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace phi3 {
namespace {

namespace decoder = capstan::decoder;

struct Phi3Options : decoder::RotaryOptions {
  Phi3Options() {
    rms_norm_epsilon = 1e-5;
    rope_original_length = 4096;
  }
  std::string model_type = "phi3";
  double dropout = 0;

  static void describe(capstan::config::OptionTable<Phi3Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void Phi3Options::describe(capstan::config::OptionTable<Phi3Options>& t) {
  t.add("model_type", &Phi3Options::model_type).choices({"phi3"}).doc("family of the config.json");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_longrope(t);
  decoder::describe_partial_rotary(t);
  decoder::describe_window(t, "all blocks");
  decoder::as_dropout(t.add("dropout", &Phi3Options::dropout))
      .spelling("resid_pdrop")
      .doc("dropout after attention and feed-forward");
  decoder::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets Phi3Options::presets() {
  const auto made = [](const decoder::RotarySizes& sizes, double theta, std::int64_t window) {
    auto out = decoder::rotary_preset("phi3", sizes, 1e-5, theta, false);
    if (window > 0) out.emplace_back("sliding_window", window);
    return out;
  };
  auto small = decoder::rotary_preset("phi3", {200064, 3072, 32, 24, 8, 8192, 131072}, 1e-5, 1e4, true);
  const std::vector<double> long_factors{
      1,           1.118320672, 1.250641126, 1.398617824, 1.564103225, 1.74916897,  1.956131817, 2.187582649,
      2.446418898, 2.735880826, 3.059592084, 3.421605075, 3.826451687, 4.279200023, 4.785517845, 5.351743533,
      5.984965424, 6.693110555, 7.485043894, 8.370679318, 9.36110372,  10.4687158,  11.70738129, 13.09260651,
      14.64173252, 16.37415215, 18.31155283, 20.47818807, 22.90118105, 25.61086418, 28.64115884, 32.03,
      32.1,        32.13,       32.23,       32.6,        32.61,       32.64,       32.66,       32.7,
      32.71,       32.93,       32.97,       33.28,       33.49,       33.5,        44.16,       47.77};
  small.insert(small.end(), {{"rope_type", std::string("longrope")},
                             {"rope_factor", 32.0},
                             {"rope_short_factors", std::vector<double>(48, 1.0)},
                             {"rope_long_factors", long_factors},
                             {"partial_rotary_factor", 0.75},
                             {"sliding_window", std::int64_t{262144}}});
  return {{"phi3-mini-4k", made({32064, 3072, 32, 32, 32, 8192, 4096}, 1e4, 2047)},
          {"phi3-medium-4k", made({32064, 5120, 40, 40, 10, 17920, 4096}, 1e4, 2047)},
          {"phi4", made({100352, 5120, 40, 40, 10, 17920, 16384}, 2.5e5, 0)},
          {"phi4-mini", std::move(small)}};
}

capstan::config::Presets Phi3Options::file_defaults() {
  return {
      {"phi3", decoder::rotary_defaults(
                   {.epsilon = 1e-5, .length = 4096},
                   {{"rope_original_length", std::int64_t{4096}}, {"partial_rotary_factor", 1.0}, {"dropout", 0.0}})}};
}

std::vector<capstan::config::FileKeys> Phi3Options::file_keys() {
  using Use = capstan::config::FileKey::Use;
  auto keys = decoder::joined({decoder::own_names({"dropout"}), decoder::rotary_keys({"partial_rotary_factor"})});
  for (const char* key : {"attention_bias", "mlp_bias", "lm_head_bias"})
    keys.push_back({key, Use::only, "models of this family have no biases", {"false"}});
  const auto rest = decoder::neutral_keys({"embd_pdrop", "full_attn_mod", "interpolate_factor"},
                                          "transformers does not read it in this family");
  keys.insert(keys.end(), rest.begin(), rest.end());
  return decoder::file_keys({decoder::family_keys("phi3", std::move(keys))});
}

class Phi3 : public decoder::RotaryModel<Phi3Options> {
 public:
  using RotaryModel::RotaryModel;

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_rotary(options_, diagnostics);
    decoder::check_longrope(options_, diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    made.attention.window = options_->window();
    made.dropout = options_->dropout;
    made.names.fused = {{"self_attn.qkv_proj", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
                        {"mlp.gate_up_proj", {"mlp.gate_proj", "mlp.up_proj"}}};
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "Phi3ForCausalLM";
    RotaryModel::describe_files(map);
  }
};

}  // namespace

CAPSTAN_MODEL("phi3", "0.1.0", "Phi-3's and Phi-4's architecture: Llama's with fused products, LongRoPE, rotary part",
              Phi3, Phi3Options)

}  // namespace phi3
