// Qwen 3's architecture (Yang et al. 2025): Llama's with RMS norms of q and k by head and a width of heads of its own;
// dense, or with routed experts.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_options.h>
#include <capstan/decoder/sparse_blocks_options.h>
#include <capstan/model.h>

#include "heads.h"

namespace qwen3 {
namespace {

namespace decoder = capstan::decoder;

struct Qwen3Options : decoder::RotaryOptions, decoder::WindowOptions, decoder::SparseBlocksOptions {
  Qwen3Options() { rope_theta = 1e6; }
  std::string model_type = "qwen3";
  bool attention_bias = false;

  bool has_experts() const { return model_type == "qwen3_moe"; }
  bool sees_images() const { return model_type == "qwen3_vl_text"; }  // without any it is a qwen3
  static void describe(capstan::config::OptionTable<Qwen3Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void Qwen3Options::describe(capstan::config::OptionTable<Qwen3Options>& t) {
  t.add("model_type", &Qwen3Options::model_type)
      .choices({"qwen3", "qwen3_moe", "qwen3_vl_text"})
      .doc("family of the config.json; qwen3_moe has routed experts, qwen3_vl_text is Qwen 3 VL's model of text");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer; an expert's is expert_dim");
  decoder::describe_sparse_blocks(t);
  t.add("attention_bias", &Qwen3Options::attention_bias).doc("biases on q, k, v and the output product");
  decoder::describe_window(t, "in the blocks that the next options say, in all of a qwen3_moe");
  decoder::describe_windows_of_blocks(t, "qwen3");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets Qwen3Options::presets() {
  const auto dense = [](const decoder::RotarySizes& sizes, bool tied) {
    auto out = decoder::rotary_preset("qwen3", sizes, 1e-6, 1e6, tied);
    out.emplace_back("head_dim", std::int64_t{128});
    return out;
  };
  const auto mixture = [](const decoder::RotarySizes& sizes, std::int64_t expert_dim) {
    auto out = decoder::rotary_preset("qwen3_moe", sizes, 1e-6, 1e6, false);
    out.insert(out.end(), {{"head_dim", std::int64_t{128}},
                           {"expert_dim", expert_dim},
                           {"num_experts", std::int64_t{128}},
                           {"experts_per_token", std::int64_t{8}},
                           {"normalise_weights", true}});
    return out;
  };
  const auto vision = [&](const decoder::RotarySizes& sizes, bool tied) {
    auto out = decoder::rotary_preset("qwen3_vl_text", sizes, 1e-6, 5e6, tied);
    out.emplace_back("head_dim", std::int64_t{128});
    return out;
  };
  return {{"qwen3-vl-2b", vision({151936, 2048, 28, 16, 8, 6144, 262144}, true)},
          {"qwen3-vl-4b", vision({151936, 2560, 36, 32, 8, 9728, 262144}, true)},
          {"qwen3-vl-8b", vision({151936, 4096, 36, 32, 8, 12288, 262144}, false)},
          {"qwen3-vl-32b", vision({151936, 5120, 64, 64, 8, 25600, 262144}, false)},
          {"qwen3-0.6b", dense({151936, 1024, 28, 16, 8, 3072, 40960}, true)},
          {"qwen3-1.7b", dense({151936, 2048, 28, 16, 8, 6144, 40960}, true)},
          {"qwen3-4b", dense({151936, 2560, 36, 32, 8, 9728, 40960}, true)},
          {"qwen3-8b", dense({151936, 4096, 36, 32, 8, 12288, 40960}, false)},
          {"qwen3-14b", dense({151936, 5120, 40, 40, 8, 17408, 40960}, false)},
          {"qwen3-32b", dense({151936, 5120, 64, 64, 8, 25600, 40960}, false)},
          {"qwen3-30b-a3b", mixture({151936, 2048, 48, 32, 4, 6144, 40960}, 768)},
          {"qwen3-235b-a22b", mixture({151936, 4096, 94, 64, 4, 12288, 40960}, 1536)}};
}

capstan::config::Presets Qwen3Options::file_defaults() {
  const auto with = [](std::int64_t kv_heads, capstan::config::Preset more) {
    more.insert(more.end(), {{"num_kv_heads", kv_heads},
                             {"attention_bias", false},
                             {"use_sliding_window", false},
                             {"sliding_window", std::int64_t{4096}}});
    return decoder::rotary_defaults({.length = 32768}, more);
  };
  return {{"qwen3", with(32, {{"head_dim", std::int64_t{128}}, {"max_window_layers", std::int64_t{28}}})},
          {"qwen3_moe", with(4, decoder::sparse_blocks_defaults(128, 8, 768))},
          {"qwen3_vl", {{"tie_word_embeddings", false}}},
          {"qwen3_vl_text",
           decoder::rotary_defaults(
               {.theta = 5e5, .length = 128000},
               {{"num_kv_heads", std::int64_t{32}}, {"head_dim", std::int64_t{128}}, {"attention_bias", false}})}};
}

std::vector<capstan::config::FileKeys> Qwen3Options::file_keys() {
  const auto keys = decoder::joined({decoder::sparse_blocks_keys(), decoder::rotary_keys()});
  std::vector<std::string> of_images{"sliding_window", "use_sliding_window", "max_window_layers", "layer_types"};
  for (const char* table : {"rope_scaling.", "rope_parameters."})
    for (const char* key : {"mrope_section", "mrope_interleaved"}) of_images.push_back(std::string(table) + key);
  const auto unread = decoder::neutral_keys(of_images, "without images nothing goes by it in this family");
  return decoder::file_keys({decoder::family_keys("qwen3", keys), decoder::family_keys("qwen3_moe", keys),
                             decoder::family_keys("qwen3_vl_text", decoder::joined({keys, unread})),
                             decoder::wrapper_keys("qwen3_vl", "Qwen3VLForConditionalGeneration")});
}

class Qwen3 : public decoder::Model {
 public:
  explicit Qwen3(capstan::config::Options<Qwen3Options> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_rotary(options_, diagnostics);
    decoder::check_rotary_scaling(options_, diagnostics);
    if (!options_->has_experts()) return decoder::check_layer_types(options_, options_->num_layers, diagnostics);
    decoder::check_sparse_blocks(options_, options_->num_layers, "model_type = \"qwen3\"", diagnostics);
    if (options_->layer_types.empty()) return;
    diagnostics.add(options_.where(&Qwen3Options::layer_types),
                    "model.layer_types is set, but all blocks of a qwen3_moe see the same positions", "remove it");
  }

  std::vector<std::unique_ptr<capstan::nn::Unit>> build() const override {
    const auto made = spec();
    auto units = decoder::units(made);
    for (const auto& unit : units) {
      unit->each<capstan::nn::Attention>([&](auto& of) { of.preparation().add(at_once_row(made.norm_epsilon)); });
    }
    return units;
  }

 protected:
  decoder::Spec spec() const override {
    auto made = options_->spec();
    made.head_norms = decoder::Spec::HeadNorms::each;
    const auto& o = *options_;
    made.qkv_bias = made.projection_bias = o.attention_bias;
    if (o.use_sliding_window.value_or(false)) made.attention.window = o.window();
    if (!o.has_experts()) {
      made.blocks_without_window = o.blocks_without_window(o.num_layers);
      return made;
    }
    o.mix(made);
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    const auto& o = *options_;
    map.architecture = o.has_experts() ? "Qwen3MoeForCausalLM" : "Qwen3ForCausalLM";
    decoder::describe_rotary_files(o, map);
    decoder::describe_rotary_scaling_files(o, map);
    if (o.has_experts()) {
      map.left_out.emplace_back("layer_types");
      return decoder::describe_sparse_blocks_files(o, map);
    }
    if (o.sees_images()) map.more["model_type"] = "\"qwen3\"";  // transformers has no class of this text model alone
    decoder::describe_window_files(o, o, true, map);
    map.left_out.insert(map.left_out.end(),
                        {"expert_dim", "num_experts", "experts_per_token", "router_aux_loss", "router_aux_loss_coef",
                         "normalise_weights", "sparse_step", "dense_layers"});
  }

 private:
  capstan::config::Options<Qwen3Options> options_;
};

}  // namespace

CAPSTAN_MODEL("qwen3", "0.1.0", "Qwen 3's architecture, dense or a mixture: Llama's with norms of q and k by head",
              Qwen3, Qwen3Options)

}  // namespace qwen3
