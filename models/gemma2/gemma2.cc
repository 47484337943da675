// Gemma 2's architecture (Gemma team 2024): norms before and after each layer, caps of attention's scores and of the
// logits, local and global blocks in turn, a gated GELU.
#include <capstan/decoder/gemma_options.h>
#include <capstan/model.h>

namespace gemma2 {
namespace {

namespace decoder = capstan::decoder;

struct Gemma2Options : decoder::GemmaOptions {
  std::string model_type = "gemma2";
  std::optional<double> attention_cap;

  static void describe(capstan::config::OptionTable<Gemma2Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void Gemma2Options::describe(capstan::config::OptionTable<Gemma2Options>& t) {
  t.add("model_type", &Gemma2Options::model_type).choices({"gemma2"}).doc("family of the config.json");
  t.add("attention_cap", &Gemma2Options::attention_cap)
      .above(0)
      .spelling("attn_logit_softcapping")
      .doc("attention's scores are this times tanh(score / this); not set: they are as they are");
  decoder::describe_query_scalar(t);
  decoder::describe_linear_scaling(t);
  decoder::describe_gemma(t);
}

// The published config.json files' numbers.
capstan::config::Presets Gemma2Options::presets() {
  const auto of = [](const decoder::RotarySizes& sizes, std::int64_t head, std::int64_t scalar) {
    return decoder::gemma_preset("gemma2", sizes, 1e4,
                                 {{"head_dim", head},
                                  {"query_pre_attn_scalar", scalar},
                                  {"sliding_window", std::int64_t{4096}},
                                  {"attention_cap", 50.0},
                                  {"logits_cap", 30.0}});
  };
  return {{"gemma2-2b", of({256000, 2304, 26, 8, 4, 9216, 8192}, 256, 256)},
          {"gemma2-9b", of({256000, 3584, 42, 16, 8, 14336, 8192}, 256, 256)},
          {"gemma2-27b", of({256000, 4608, 46, 32, 16, 36864, 8192}, 128, 144)}};
}

capstan::config::Presets Gemma2Options::file_defaults() {
  return {{"gemma2", decoder::gemma_defaults({.length = 8192}, {{"num_kv_heads", std::int64_t{4}},
                                                                {"query_pre_attn_scalar", std::int64_t{256}},
                                                                {"sliding_window", std::int64_t{4096}},
                                                                {"attention_cap", 50.0},
                                                                {"logits_cap", 30.0}})}};
}

std::vector<capstan::config::FileKeys> Gemma2Options::file_keys() {
  return decoder::file_keys({decoder::family_keys(
      "gemma2",
      decoder::joined({decoder::gemma_keys(), decoder::rotary_keys(), decoder::own_names({"attention_cap"})}))});
}

class Gemma2 : public decoder::Model {
 public:
  explicit Gemma2(capstan::config::Options<Gemma2Options> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override { decoder::check_gemma(options_, diagnostics); }

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    made.attention.soft_cap = options_->attention_cap;
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "Gemma2ForCausalLM";
    decoder::describe_gemma_files(*options_, map);
  }

 private:
  capstan::config::Options<Gemma2Options> options_;
};

}  // namespace

CAPSTAN_MODEL("gemma2", "0.1.0", "Gemma 2's architecture: norms on both sides, caps of scores and logits, windows",
              Gemma2, Gemma2Options)

}  // namespace gemma2
