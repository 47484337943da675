// Qwen 2's mixtures (Qwen1.5-MoE, Qwen2-57B-A14B; Yang et al. 2024): Qwen 2's attention, routed experts, and a layer
// beside them that computes every token, with a gate of its own.
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/decoder/sparse_blocks_options.h>
#include <capstan/model.h>

namespace qwen2_moe {
namespace {

namespace decoder = capstan::decoder;

struct Qwen2MoeOptions : decoder::RotaryOptions, decoder::SparseBlocksOptions {
  std::string model_type = "qwen2_moe";
  std::int64_t shared_dim = 176;
  bool qkv_bias = true;

  static void describe(capstan::config::OptionTable<Qwen2MoeOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = Qwen2MoeOptions;

void Qwen2MoeOptions::describe(capstan::config::OptionTable<Qwen2MoeOptions>& t) {
  t.add("model_type", &O::model_type).choices({"qwen2_moe"}).doc("family of the config.json");
  decoder::describe_rotary_sizes(t,
                                 "the gated feed-forward layer in blocks without experts; an expert's is expert_dim");
  decoder::describe_sparse_blocks(t);
  t.add("shared_dim", &O::shared_dim)
      .min(1)
      .spelling("shared_expert_intermediate_size")
      .doc("width of the layer beside the experts, which computes every token");
  t.add("qkv_bias", &O::qkv_bias).doc("biases on q, k and v");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets Qwen2MoeOptions::presets() {
  const auto of = [](const decoder::RotarySizes& sizes, std::int64_t experts, std::int64_t per_token,
                     std::int64_t expert, std::int64_t shared) {
    auto out = decoder::rotary_preset("qwen2_moe", sizes, 1e-6, 1e6, false);
    out.insert(
        out.end(),
        {{"num_experts", experts}, {"experts_per_token", per_token}, {"expert_dim", expert}, {"shared_dim", shared}});
    return out;
  };
  return {{"qwen1.5-moe-a2.7b", of({151936, 2048, 24, 16, 16, 5632, 8192}, 60, 4, 1408, 5632)},
          {"qwen2-57b-a14b", of({151936, 3584, 28, 28, 4, 18944, 131072}, 64, 8, 2560, 20480)}};
}

capstan::config::Presets Qwen2MoeOptions::file_defaults() {
  auto more = decoder::sparse_blocks_defaults(60, 4, 1408);
  more.insert(more.end(), {{"num_kv_heads", std::int64_t{16}}, {"shared_dim", std::int64_t{5632}}, {"qkv_bias", true}});
  return {{"qwen2_moe", decoder::rotary_defaults({.length = 32768}, more)}};
}

std::vector<capstan::config::FileKeys> Qwen2MoeOptions::file_keys() {
  return decoder::file_keys({decoder::family_keys(
      "qwen2_moe",
      decoder::joined({decoder::rotary_keys(), decoder::sparse_blocks_keys(), decoder::own_names({"shared_dim"}),
                       decoder::only_keys({"use_sliding_window"}, "false", "windows are not supported in this family"),
                       decoder::neutral_keys({"sliding_window", "max_window_layers", "layer_types"},
                                             "without use_sliding_window nothing goes by it")}))});
}

class Qwen2Moe : public decoder::RotaryModel<Qwen2MoeOptions> {
 public:
  using RotaryModel::RotaryModel;

  void check(capstan::Diagnostics& diagnostics) const override {
    RotaryModel::check(diagnostics);
    decoder::check_sparse_blocks(options_, options_->num_layers, R"(plugin = "llama" and model_type = "qwen2")",
                                 diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    o.mix(made);
    made.qkv_bias = o.qkv_bias;
    made.mixture.shared_dim = o.shared_dim;
    made.mixture.shared_gate = true;
    made.names.shared = "mlp.shared_expert";
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "Qwen2MoeForCausalLM";
    RotaryModel::describe_files(map);
    decoder::describe_sparse_blocks_files(*options_, map);
  }
};

}  // namespace

CAPSTAN_MODEL("qwen2_moe", "0.1.0", "Qwen 2's mixtures: its attention, routed experts, and a gated layer beside them",
              Qwen2Moe, Qwen2MoeOptions)

}  // namespace qwen2_moe
