// Gemma 3's text model (Gemma team 2025): Gemma 2's with norms of q and k in place of caps, and local and global blocks
// with rotary bases of their own.
#include <capstan/decoder/gemma_options.h>
#include <capstan/model.h>

namespace gemma3 {
namespace {

namespace decoder = capstan::decoder;
using Use = capstan::config::FileKey::Use;

// transformers 5's tables of the blocks' rotary positions.
const std::string global_rope = "rope_parameters.full_attention.", local_rope = "rope_parameters.sliding_attention.";

struct Gemma3Options : decoder::GemmaOptions {
  Gemma3Options() {
    global_every = 6;
    rope_theta = 1e6;
  }
  std::string model_type = "gemma3_text";
  double local_rope_theta = 1e4;

  static void describe(capstan::config::OptionTable<Gemma3Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void Gemma3Options::describe(capstan::config::OptionTable<Gemma3Options>& t) {
  t.add("model_type", &Gemma3Options::model_type).choices({"gemma3_text"}).doc("family of the config.json");
  t.add("global_every", &Gemma3Options::global_every)
      .min(1)
      .spelling("sliding_window_pattern")
      .doc("every n-th block is global, where layer_types is empty");
  decoder::describe_query_scalar(t);
  decoder::describe_linear_scaling(t, global_rope);
  t.add("local_rope_theta", &Gemma3Options::local_rope_theta)
      .above(0)
      .spelling("rope_local_base_freq")
      .spelling(local_rope + "rope_theta")
      .doc("base of the rotary frequencies of local blocks, which are never scaled; the others are global blocks'");
  decoder::describe_gemma(t);
}

// The published config.json files' numbers.
capstan::config::Presets Gemma3Options::presets() {
  const auto of = [](const decoder::RotarySizes& sizes, std::int64_t head, std::int64_t scalar, std::int64_t window) {
    return decoder::gemma_preset("gemma3_text", sizes, 1e6,
                                 {{"head_dim", head}, {"query_pre_attn_scalar", scalar}, {"sliding_window", window}});
  };
  const auto scaled = [&](const decoder::RotarySizes& sizes, std::int64_t head, std::int64_t scalar) {
    auto out = of(sizes, head, scalar, 1024);
    out.insert(out.end(), {{"rope_type", std::string("linear")}, {"rope_factor", 8.0}});
    return out;
  };
  return {{"gemma3-270m", of({262144, 640, 18, 4, 1, 2048, 32768}, 256, 256, 512)},
          {"gemma3-1b", of({262144, 1152, 26, 4, 1, 6912, 32768}, 256, 256, 512)},
          {"gemma3-4b-text", scaled({262208, 2560, 34, 8, 4, 10240, 131072}, 256, 256)},
          {"gemma3-12b-text", scaled({262208, 3840, 48, 16, 8, 15360, 131072}, 256, 256)},
          {"gemma3-27b-text", scaled({262208, 5376, 62, 32, 16, 21504, 131072}, 128, 168)}};
}

capstan::config::Presets Gemma3Options::file_defaults() {
  return {{"gemma3_text",
           decoder::gemma_defaults({.theta = 1e6, .length = 131072}, {{"vocab_size", std::int64_t{262208}},
                                                                      {"num_heads", std::int64_t{8}},
                                                                      {"num_kv_heads", std::int64_t{4}},
                                                                      {"query_pre_attn_scalar", std::int64_t{256}},
                                                                      {"sliding_window", std::int64_t{4096}},
                                                                      {"global_every", std::int64_t{6}},
                                                                      {"local_rope_theta", 1e4}})},
          {"gemma3", {{"tie_word_embeddings", true}}}};
}

std::vector<capstan::config::FileKeys> Gemma3Options::file_keys() {
  auto keys = decoder::joined(
      {decoder::gemma_keys(), decoder::rotary_keys({}, global_rope), decoder::own_names({"local_rope_theta"})});
  keys.push_back({"attn_logit_softcapping", Use::refused, "transformers does not apply it in this family: remove it"});
  for (const char* name : {"rope_type", "type"}) {
    keys.push_back(
        {local_rope + name, Use::only, "local blocks with scaled positions are not supported", {"\"default\""}});
  }
  return decoder::file_keys({decoder::family_keys("gemma3_text", std::move(keys)),
                             decoder::wrapper_keys("gemma3", "Gemma3ForConditionalGeneration")});
}

class Gemma3 : public decoder::Model {
 public:
  explicit Gemma3(capstan::config::Options<Gemma3Options> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override { decoder::check_gemma(options_, diagnostics); }

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    made.head_norms = decoder::Spec::HeadNorms::each;
    made.vary = [o = *options_](decoder::Spec& block, std::int64_t index) {
      if (o.is_local(index)) block.rotary = capstan::nn::Rotary(o.dim(), o.local_rope_theta, {});
    };
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "Gemma3ForCausalLM";
    decoder::describe_gemma_files(*options_, map);
  }

 private:
  capstan::config::Options<Gemma3Options> options_;
};

}  // namespace

CAPSTAN_MODEL("gemma3", "0.1.0", "Gemma 3's text model: Gemma 2's with norms of q and k, and rotary bases by block",
              Gemma3, Gemma3Options)

}  // namespace gemma3
