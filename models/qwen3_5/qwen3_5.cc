// Qwen 3.5's text models, dense or with routed experts: three blocks of the gated delta rule (Yang et al. 2024), then
// one of attention with a gate, of whose heads a part turns; norms multiply by 1 + weight.
#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_options.h>
#include <capstan/model.h>

#include "hybrid_options.h"

namespace qwen3_5 {
namespace {

using capstan::cat;
namespace decoder = capstan::decoder;

struct Qwen35Options : decoder::RotaryOptions, decoder::RouterOptions, HybridOptions {
  std::string model_type = "qwen3_5_text";
  double rotary_part = 0.25;
  bool attention_bias = false;
  std::int64_t expert_dim = 176;
  std::int64_t shared_expert_dim = 176;

  bool has_experts() const { return model_type == "qwen3_5_moe_text"; }
  /// A head's numbers that turn.
  std::int64_t turned() const { return static_cast<std::int64_t>(static_cast<double>(dim()) * rotary_part); }
  static void describe(capstan::config::OptionTable<Qwen35Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

void Qwen35Options::describe(capstan::config::OptionTable<Qwen35Options>& t) {
  t.add("model_type", &Qwen35Options::model_type)
      .choices({"qwen3_5_text", "qwen3_5_moe_text"})
      .doc("family of the config.json; qwen3_5_moe_text has routed experts and one that computes every token");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer, where there are no experts");
  describe_hybrid(t);
  t.add("expert_dim", &Qwen35Options::expert_dim).min(1).spelling("moe_intermediate_size").doc("width of an expert");
  t.add("shared_expert_dim", &Qwen35Options::shared_expert_dim)
      .min(1)
      .spelling("shared_expert_intermediate_size")
      .doc("width of the expert that computes every token");
  decoder::describe_routers(t, "num_local_experts");  // what transformers 5 writes
  t.add("attention_bias", &Qwen35Options::attention_bias).doc("biases on q, k, v and the output product of attention");
  t.add("rotary_part", &Qwen35Options::rotary_part)
      .above(0)
      .max(1)
      .spelling("partial_rotary_factor")
      .spelling("rope_parameters.partial_rotary_factor")
      .doc("of each head's numbers, which turn with the position; the others stay");
  decoder::describe_rotary_positions(t, {"default"}, "not");
  decoder::describe_rotary_rest(t);
}

// The published config.json files' numbers.
capstan::config::Presets Qwen35Options::presets() {
  const auto preset = [](const char* type, const decoder::RotarySizes& sizes, bool tied, std::int64_t value_heads) {
    auto out = decoder::rotary_preset(type, sizes, 1e-6, 1e7, tied);
    out.insert(out.end(), {{"head_dim", std::int64_t{256}},
                           {"delta_key_heads", std::int64_t{16}},
                           {"delta_value_heads", value_heads},
                           {"delta_key_dim", std::int64_t{128}},
                           {"delta_value_dim", std::int64_t{128}}});
    return out;
  };
  const auto dense = [&](const decoder::RotarySizes& sizes, bool tied, std::int64_t value_heads) {
    return preset("qwen3_5_text", sizes, tied, value_heads);
  };
  auto mixture = preset("qwen3_5_moe_text", {248320, 2048, 40, 16, 2, 512, 262144}, false, 32);
  mixture.insert(mixture.end(), {{"expert_dim", std::int64_t{512}},
                                 {"shared_expert_dim", std::int64_t{512}},
                                 {"num_experts", std::int64_t{256}},
                                 {"experts_per_token", std::int64_t{8}}});
  return {{"qwen3.5-0.8b", dense({248320, 1024, 24, 8, 2, 3584, 262144}, true, 16)},
          {"qwen3.5-4b", dense({248320, 2560, 32, 16, 4, 9216, 262144}, true, 32)},
          {"qwen3.5-9b", dense({248320, 4096, 32, 16, 4, 12288, 262144}, false, 32)},
          {"qwen3.5-27b", dense({248320, 5120, 64, 24, 4, 17408, 262144}, false, 48)},
          {"qwen3.5-35b-a3b", std::move(mixture)}};
}

capstan::config::Presets Qwen35Options::file_defaults() {
  const auto with = [](std::int64_t kv_heads) {
    return decoder::rotary_defaults({.length = 32768}, {{"num_kv_heads", kv_heads},
                                                        {"head_dim", std::int64_t{256}},
                                                        {"attention_bias", false},
                                                        {"rotary_part", 0.25},
                                                        {"full_attention_interval", std::int64_t{4}},
                                                        {"delta_key_heads", std::int64_t{16}},
                                                        {"delta_value_heads", std::int64_t{32}},
                                                        {"delta_key_dim", std::int64_t{128}},
                                                        {"delta_value_dim", std::int64_t{128}},
                                                        {"delta_kernel", std::int64_t{4}}});
  };
  auto mixture = with(2);
  mixture.insert(mixture.end(), {{"ff_dim", std::int64_t{512}},  // of no block
                                 {"num_experts", std::int64_t{256}},
                                 {"experts_per_token", std::int64_t{8}},
                                 {"expert_dim", std::int64_t{512}},
                                 {"shared_expert_dim", std::int64_t{512}},
                                 {"router_aux_loss", false},
                                 {"router_aux_loss_coef", 0.001}});
  const capstan::config::Preset around{{"tie_word_embeddings", false}};
  return {{"qwen3_5_text", with(4)},
          {"qwen3_5_moe_text", std::move(mixture)},
          {"qwen3_5", around},
          {"qwen3_5_moe", around}};
}

std::vector<capstan::config::FileKeys> Qwen35Options::file_keys() {
  auto keys =
      decoder::own_names({"rotary_part", "expert_dim", "shared_expert_dim", "experts_per_token", "router_aux_loss"});
  for (const auto& more : {hybrid_keys(), decoder::rotary_keys()}) keys.insert(keys.end(), more.begin(), more.end());
  std::erase_if(keys, [](const auto& key) { return key.name.ends_with("partial_rotary_factor"); });
  return decoder::file_keys(
      {decoder::family_keys("qwen3_5_text", keys), decoder::family_keys("qwen3_5_moe_text", keys),
       decoder::wrapper_keys("qwen3_5", "Qwen3_5ForConditionalGeneration"),
       decoder::wrapper_keys("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration")});
}

class Qwen35 : public decoder::Model {
 public:
  explicit Qwen35(capstan::config::Options<Qwen35Options> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_rotary(options_, diagnostics);
    check_hybrid(options_, options_->num_layers, diagnostics);
    if (options_->has_experts()) decoder::check_routers(options_, diagnostics);
    if (options_->turned() > 0 && options_->turned() % 2 == 0) return;
    diagnostics.add(
        options_.where(&Qwen35Options::rotary_part),
        cat("model.rotary_part lets ", options_->turned(), " of a head's ", options_->dim(), " numbers turn"),
        "an even number of them can turn");
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.rotary = capstan::nn::Rotary(o.dim(), o.rope_theta, {}, {.turned = o.turned()});
    made.head_norms = decoder::Spec::HeadNorms::each;
    made.norm_factor = capstan::nn::RmsNorm::Factor::one_plus_weight;
    made.qkv_bias = made.projection_bias = o.attention_bias;
    made.output_gate = true;
    made.token_mixer = [hybrid = static_cast<const HybridOptions&>(o), sizes = sizes()](
                           auto& parent, std::int64_t block, const std::string& records) {
      return hybrid.attends(block)
                 ? nullptr
                 : std::make_unique<GatedDeltaNet>(parent, sizes, records, static_cast<std::size_t>(block));
    };
    if (!o.has_experts()) return made;
    made.ff_dim = o.expert_dim;
    made.mixture = o.mixture();
    made.mixture.shared_dim = o.shared_expert_dim;
    made.mixture.shared_gate = true;
    made.names.shared = "mlp.shared_expert";
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    const auto& o = *options_;
    map.architecture = o.has_experts() ? "Qwen3_5MoeForCausalLM" : "Qwen3_5ForCausalLM";
    map.left_out = {"rope_type"};
    map.kept = {"mtp."};
    decoder::describe_rotary_files(o, map);
    describe_hybrid_files(o, o.num_layers, map);
    for (std::int64_t i = 0; i < o.num_layers; ++i)
      if (!o.attends(i)) GatedDeltaNet::describe_files(sizes(), cat("model.layers.", i, "."), map);
    if (o.has_experts()) {
      map.left_out.emplace_back("ff_dim");
      map.more["num_experts"] = std::to_string(o.num_experts);
    } else {
      map.left_out.insert(map.left_out.end(), {"expert_dim", "shared_expert_dim", "num_experts", "experts_per_token",
                                               "router_aux_loss", "router_aux_loss_coef"});
    }
  }

 private:
  DeltaSizes sizes() const {
    auto made = options_->HybridOptions::sizes();
    made.hidden = options_->hidden_size;
    made.norm_epsilon = options_->rms_norm_epsilon;
    made.init_std = options_->init_std;
    return made;
  }

  capstan::config::Options<Qwen35Options> options_;
};

}  // namespace

CAPSTAN_MODEL("qwen3_5", "0.1.0",
              "Qwen 3.5's text models, dense or a mixture: blocks of the gated delta rule between attention's", Qwen35,
              Qwen35Options)

}  // namespace qwen3_5
