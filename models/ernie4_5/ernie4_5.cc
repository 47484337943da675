// ERNIE 4.5's dense architecture (Baidu 2025): Llama's with heads that turn in pairs.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace ernie4_5 {
namespace {

namespace decoder = capstan::decoder;

struct Ernie45Options : decoder::RotaryOptions {
  Ernie45Options() {
    rms_norm_epsilon = 1e-5;
    rope_theta = 5e5;
    tie_word_embeddings = true;
  }
  std::string model_type = "ernie4_5";
  bool use_bias = false;

  static void describe(capstan::config::OptionTable<Ernie45Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void Ernie45Options::describe(capstan::config::OptionTable<Ernie45Options>& t) {
  t.add("model_type", &Ernie45Options::model_type).choices({"ernie4_5"}).doc("family of the config.json");
  t.add("use_bias", &Ernie45Options::use_bias).doc("biases on all products of attention and feed-forward layers");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// The published config.json's numbers.
capstan::config::Presets Ernie45Options::presets() {
  auto out = decoder::rotary_preset("ernie4_5", {103424, 1024, 18, 16, 2, 3072, 131072}, 1e-5, 5e5, true);
  out.emplace_back("head_dim", std::int64_t{128});
  return {{"ernie4.5-0.3b", std::move(out)}};
}

capstan::config::Presets Ernie45Options::file_defaults() {
  return {{"ernie4_5", decoder::rotary_defaults(
                           {.epsilon = 1e-5, .theta = 5e5, .length = 131072, .tied = true},
                           {{"num_kv_heads", std::int64_t{2}}, {"head_dim", std::int64_t{128}}, {"use_bias", false}})}};
}

std::vector<capstan::config::FileKeys> Ernie45Options::file_keys() {
  return decoder::file_keys({decoder::family_keys(
      "ernie4_5", decoder::joined({decoder::rotary_keys(),
                                   decoder::neutral_keys({"attention_dropout"},
                                                         "transformers does not read it in this family")}))});
}

class Ernie45 : public decoder::RotaryModel<Ernie45Options> {
 public:
  using RotaryModel::RotaryModel;

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    made.rotary = options_->rotary({.interleaved = true});
    made.qkv_bias = made.projection_bias = made.mlp_bias = options_->use_bias;
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "Ernie4_5ForCausalLM";
    RotaryModel::describe_files(map);
    map.left_out.emplace_back("attention_dropout");
  }
};

}  // namespace

CAPSTAN_MODEL("ernie4_5", "0.1.0", "ERNIE 4.5's dense architecture: Llama's with heads that turn in pairs", Ernie45,
              Ernie45Options)

}  // namespace ernie4_5
