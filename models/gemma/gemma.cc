// Gemma's first architecture (Gemma team 2024): Llama's with norms times 1 + weight, scaled embeddings and a gated
// GELU.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

#include <cmath>

namespace gemma {
namespace {

namespace decoder = capstan::decoder;

struct GemmaOptions : decoder::RotaryOptions {
  GemmaOptions() {
    activation = "gelu_pytorch_tanh";
    tie_word_embeddings = true;
  }
  std::string model_type = "gemma";
  bool attention_bias = false;

  static void describe(capstan::config::OptionTable<GemmaOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void GemmaOptions::describe(capstan::config::OptionTable<GemmaOptions>& t) {
  t.add("model_type", &GemmaOptions::model_type).choices({"gemma"}).doc("family of the config.json");
  t.add("attention_bias", &GemmaOptions::attention_bias).doc("biases on q, k, v and the output product");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t, "gelu_pytorch_tanh");
}

// The published config.json files' numbers.
capstan::config::Presets GemmaOptions::presets() {
  const auto of = [](const decoder::RotarySizes& sizes) {
    auto out = decoder::rotary_preset("gemma", sizes, 1e-6, 1e4, true);
    out.emplace_back("head_dim", std::int64_t{256});
    return out;
  };
  return {{"gemma-2b", of({256000, 2048, 18, 8, 1, 16384, 8192})},
          {"gemma-7b", of({256000, 3072, 28, 16, 16, 24576, 8192})}};
}

capstan::config::Presets GemmaOptions::file_defaults() {
  return {
      {"gemma", decoder::rotary_defaults(
                    {.length = 8192, .activation = "gelu_pytorch_tanh", .tied = true},
                    {{"num_kv_heads", std::int64_t{16}}, {"head_dim", std::int64_t{256}}, {"attention_bias", false}})}};
}

std::vector<capstan::config::FileKeys> GemmaOptions::file_keys() {
  auto keys = decoder::rotary_keys();
  keys.push_back({"hidden_activation",
                  capstan::config::FileKey::Use::only,
                  "transformers reads hidden_act: this must not say another one",
                  {"\"gelu_pytorch_tanh\""}});
  return decoder::file_keys({decoder::family_keys("gemma", std::move(keys))});
}

class Gemma : public decoder::RotaryModel<GemmaOptions> {
 public:
  using RotaryModel::RotaryModel;

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    made.norm_factor = capstan::nn::RmsNorm::Factor::one_plus_weight;
    made.embedding_multiplier = std::sqrt(static_cast<double>(options_->hidden_size));
    made.rounds_multiplier = true;
    made.qkv_bias = made.projection_bias = options_->attention_bias;
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "GemmaForCausalLM";
    RotaryModel::describe_files(map);
  }
};

}  // namespace

CAPSTAN_MODEL("gemma", "0.1.0", "Gemma's first architecture: Llama's with scaled embeddings and norms times 1 + weight",
              Gemma, GemmaOptions)

}  // namespace gemma
