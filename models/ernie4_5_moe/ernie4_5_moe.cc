// ERNIE 4.5's mixtures (Baidu 2025): heads that turn in pairs, experts in some of the blocks, and routers whose
// probabilities are corrected for the choice of experts.
#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace ernie4_5_moe {
namespace {

namespace decoder = capstan::decoder;

struct Ernie45MoeOptions : decoder::RotaryOptions {
  Ernie45MoeOptions() {
    rms_norm_epsilon = 1e-5;
    rope_theta = 5e5;
    tie_word_embeddings = true;
  }
  std::string model_type = "ernie4_5_moe";
  std::int64_t num_experts = 8;
  std::int64_t experts_per_token = 2;
  std::int64_t expert_dim = 176;
  std::int64_t shared_experts = 2;
  std::int64_t first_expert_block = 1;
  std::int64_t last_expert_block = -1;
  std::int64_t expert_interval = 1;

  bool has_experts(std::int64_t block) const {
    const auto last = last_expert_block < 0 ? num_layers - 1 : last_expert_block;
    return (block + 1) % expert_interval == 0 && block >= first_expert_block && block <= last;
  }
  static void describe(capstan::config::OptionTable<Ernie45MoeOptions>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = Ernie45MoeOptions;

void Ernie45MoeOptions::describe(capstan::config::OptionTable<Ernie45MoeOptions>& t) {
  t.add("model_type", &O::model_type).choices({"ernie4_5_moe"}).doc("family of the config.json");
  const auto add = [&](const char* name, std::int64_t O::*field, int least, const char* key) {
    return t.add(name, field).min(least).spelling(key);
  };
  add("num_experts", &O::num_experts, 1, "moe_num_experts").doc("experts in a block from which its router chooses");
  add("experts_per_token", &O::experts_per_token, 1, "moe_k").doc("experts that compute each token; none is dropped");
  add("expert_dim", &O::expert_dim, 1, "moe_intermediate_size").doc("width of an expert");
  add("shared_experts", &O::shared_experts, 0, "moe_num_shared_experts")
      .doc("further experts in each block, which compute every token and are one layer of their widths' sum");
  add("first_expert_block", &O::first_expert_block, 0, "moe_layer_start_index").doc("the first block with experts");
  add("last_expert_block", &O::last_expert_block, -1, "moe_layer_end_index").doc("the last one; -1: the model's last");
  add("expert_interval", &O::expert_interval, 1, "moe_layer_interval")
      .doc("of the blocks between these, counted from 1, those whose number it divides have experts");
  decoder::describe_rotary_sizes(t, "the feed-forward layer in blocks without experts");
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

using Int = std::int64_t;

// The published config.json's numbers, which transformers takes where a file leaves them out.
capstan::config::Preset with_experts(capstan::config::Preset out) {
  out.insert(out.end(), {{"num_experts", Int{64}},
                         {"experts_per_token", Int{6}},
                         {"expert_dim", Int{1536}},
                         {"shared_experts", Int{2}},
                         {"first_expert_block", Int{1}},
                         {"last_expert_block", Int{-1}},
                         {"expert_interval", Int{1}}});
  return out;
}

capstan::config::Presets Ernie45MoeOptions::presets() {
  return {{"ernie4.5-21b-a3b", with_experts(decoder::rotary_preset(
                                   "ernie4_5_moe", {103424, 2560, 28, 20, 4, 12288, 131072}, 1e-5, 5e5, true))}};
}

capstan::config::Presets Ernie45MoeOptions::file_defaults() {
  return {{"ernie4_5_moe",
           with_experts(decoder::rotary_defaults({.epsilon = 1e-5, .theta = 5e5, .length = 131072, .tied = true},
                                                 {{"num_kv_heads", Int{4}}}))}};
}

std::vector<capstan::config::FileKeys> Ernie45MoeOptions::file_keys() {
  using Use = capstan::config::FileKey::Use;
  auto keys = decoder::rotary_keys();
  keys.push_back({"output_router_logits", Use::only, "the loss of these routers is not supported", {"false"}});
  keys.push_back({"use_bias", Use::only, "mixtures with biases are not supported", {"false"}});
  keys.push_back({"moe_norm_min", Use::only, "weights are divided by their sum, however small", {"1e-12"}});
  for (const auto& more : {decoder::own_names({"experts_per_token", "expert_dim", "shared_experts",
                                               "first_expert_block", "last_expert_block", "expert_interval"}),
                           decoder::neutral_keys({"attention_dropout", "moe_capacity", "moe_gate", "moe_use_aux_free",
                                                  "num_nextn_predict_layers", "router_aux_loss_coef"},
                                                 "transformers does not compute by it in this family")})
    keys.insert(keys.end(), more.begin(), more.end());
  return decoder::file_keys({decoder::family_keys("ernie4_5_moe", std::move(keys))});
}

class Ernie45Moe : public decoder::RotaryModel<Ernie45MoeOptions> {
 public:
  using RotaryModel::RotaryModel;

  void check(capstan::Diagnostics& diagnostics) const override {
    RotaryModel::check(diagnostics);
    if (options_->experts_per_token <= options_->num_experts) return;
    diagnostics.add(options_.where(&O::experts_per_token), "model.experts_per_token is more than model.num_experts",
                    capstan::cat("use at most ", options_->num_experts));
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
    made.rotary = o.rotary({.interleaved = true});
    auto& mixture = made.mixture;
    mixture.count = o.num_experts;
    mixture.per_token = o.experts_per_token;
    mixture.router.correction = true;
    mixture.shared_dim = o.shared_experts * o.expert_dim;
    mixture.dense_ff_dim = o.ff_dim;
    for (std::int64_t i = 0; i < o.num_layers; ++i)
      if (!o.has_experts(i)) mixture.dense_blocks.insert(i);
    made.ff_dim = o.expert_dim;
    made.names.router_correction = "moe_statics.e_score_correction_bias";
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    map.architecture = "Ernie4_5_MoeForCausalLM";
    map.kept = {"model.mtp_"};
    RotaryModel::describe_files(map);
    map.left_out.emplace_back("attention_dropout");
    for (std::int64_t i = 0; i < options_->num_layers; ++i) {
      const auto mlp = capstan::cat("layers.", i, ".mlp.");
      const std::string correction = "moe_statics.e_score_correction_bias";
      if (!options_->has_experts(i)) continue;
      auto& tensor = map.tensors.at(capstan::cat("model.", mlp, "gate.", correction));
      tensor.name = mlp + correction;
      tensor.file_shape = {1, options_->num_experts};
    }
  }
};

}  // namespace

CAPSTAN_MODEL("ernie4_5_moe", "0.1.0", "ERNIE 4.5's mixtures: heads that turn in pairs, and corrected routers",
              Ernie45Moe, Ernie45MoeOptions)

}  // namespace ernie4_5_moe
