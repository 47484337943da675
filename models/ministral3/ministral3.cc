// Ministral 3's text model (Mistral AI 2025): Llama's with queries that grow with their position, YaRN and heads of a
// width of their own.
#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_options.h>
#include <capstan/model.h>

namespace ministral3 {
namespace {

namespace decoder = capstan::decoder;

struct Ministral3Options : decoder::RotaryOptions {
  Ministral3Options() { rms_norm_epsilon = 1e-5; }
  std::string model_type = "ministral3";
  double query_scaling = 0;

  static void describe(capstan::config::OptionTable<Ministral3Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void Ministral3Options::describe(capstan::config::OptionTable<Ministral3Options>& t) {
  t.add("model_type", &Ministral3Options::model_type).choices({"ministral3"}).doc("family of the config.json");
  t.add("query_scaling", &Ministral3Options::query_scaling)
      .min(0)
      .spelling("rope_scaling.llama_4_scaling_beta")
      .spelling("rope_parameters.llama_4_scaling_beta")
      .doc("queries are multiplied by 1 + this x ln(1 + floor(position / rope_original_length))");
  decoder::describe_window(t, "all blocks");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// The numbers of the published text_configs.
capstan::config::Presets Ministral3Options::presets() {
  const auto made = [](const decoder::RotarySizes& sizes, double theta, bool tied) {
    auto out = decoder::rotary_preset("ministral3", sizes, 1e-5, theta, tied);
    out.insert(out.end(), {{"head_dim", std::int64_t{128}},
                           {"rope_type", std::string("yarn")},
                           {"rope_factor", 16.0},
                           {"rope_original_length", std::int64_t{16384}},
                           {"rope_mscale", 1.0},
                           {"rope_mscale_all", 1.0},
                           {"query_scaling", 0.1}});
    return out;
  };
  return {{"ministral3-3b", made({131072, 3072, 26, 32, 8, 9216, 262144}, 1e6, true)},
          {"ministral3-8b", made({131072, 4096, 34, 32, 8, 14336, 262144}, 1e6, false)},
          {"ministral3-14b", made({131072, 5120, 40, 32, 8, 16384, 262144}, 1e9, false)}};
}

// transformers has a table of scaling for a file without one, which no published folder is: naming its type has the
// table asked for.
capstan::config::Presets Ministral3Options::file_defaults() {
  auto all = decoder::rotary_defaults({.epsilon = 1e-5, .length = 262144},
                                      {{"num_kv_heads", std::int64_t{8}}, {"head_dim", std::int64_t{128}}});
  for (auto& [key, value] : all) {
    if (key == "rope_type") value = std::string("yarn");
  }
  return {{"ministral3", std::move(all)}, {"mistral3", {{"tie_word_embeddings", true}}}};
}

std::vector<capstan::config::FileKeys> Ministral3Options::file_keys() {
  using Use = capstan::config::FileKey::Use;
  auto keys = decoder::joined({decoder::own_names({"query_scaling"}), decoder::rotary_keys()});
  for (const char* key : {"rope_scaling.max_position_embeddings", "rope_parameters.max_position_embeddings"})
    keys.push_back({key, Use::neutral, "transformers reads the one next to the table"});
  return decoder::file_keys({decoder::family_keys("ministral3", std::move(keys)),
                             decoder::wrapper_keys("mistral3", "Mistral3ForConditionalGeneration")});
}

class Ministral3 : public decoder::Model {
 public:
  explicit Ministral3(capstan::config::Options<Ministral3Options> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_rotary(options_, diagnostics);
    decoder::check_rotary_scaling(options_, diagnostics);
    using O = Ministral3Options;
    if (options_.is_set(&O::query_scaling) && options_.is_set(&O::rope_original_length)) return;
    diagnostics.add(options_.where(&O::query_scaling),
                    "model.query_scaling and model.rope_original_length are not both set",
                    "set them, 0.1 and 16384 in Ministral 3; query_scaling = 0 leaves queries as they are");
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.attention.window = o.window();
    if (o.query_scaling > 0) made.query_scaling = {o.query_scaling, o.rope_original_length};
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "Ministral3ForCausalLM";
    decoder::describe_rotary_files(*options_, map);
    decoder::describe_rotary_scaling_files(*options_, map);
    std::erase(map.left_out, "rope_original_length");  // which transformers divides positions by, scaled or not
  }

 private:
  capstan::config::Options<Ministral3Options> options_;
};

}  // namespace

CAPSTAN_MODEL("ministral3", "0.1.0", "Ministral 3's text model: Llama's with queries scaled by position, and YaRN",
              Ministral3, Ministral3Options)

}  // namespace ministral3
