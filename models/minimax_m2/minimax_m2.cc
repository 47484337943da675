// MiniMax M2's architecture (MiniMax 2025): part of each head turns, norms over all of q's and k's features, and routed
// experts in every block, chosen by sigmoids.
#include <capstan/base/text.h>
#include <capstan/decoder/file_keys.h>
#include <capstan/decoder/rotary_model.h>
#include <capstan/model.h>

namespace minimax_m2 {
namespace {

namespace decoder = capstan::decoder;

struct MiniMaxM2Options : decoder::RotaryOptions, decoder::RouterOptions {
  MiniMaxM2Options() { rope_theta = 5e6; }
  std::string model_type = "minimax_m2";
  std::optional<std::int64_t> rotary_dim;

  /// The share of each head that turns: files give one of the two.
  double turned() const {
    return rotary_dim ? static_cast<double>(*rotary_dim) / static_cast<double>(dim()) : partial_rotary_factor;
  }
  static void describe(capstan::config::OptionTable<MiniMaxM2Options>& t);
  static capstan::config::Presets presets();
  static capstan::config::Presets file_defaults();
  static std::vector<capstan::config::FileKeys> file_keys();
};

using O = MiniMaxM2Options;

void MiniMaxM2Options::describe(capstan::config::OptionTable<MiniMaxM2Options>& t) {
  t.add("model_type", &O::model_type).choices({"minimax_m2"}).doc("family of the config.json");
  decoder::describe_rotary_sizes(t, "an expert");
  decoder::describe_experts(t, "num_local_experts");
  t.add("rotary_dim", &O::rotary_dim)
      .min(2)
      .doc("how many of a head's numbers turn, in place of partial_rotary_factor");
  decoder::describe_partial_rotary(t);
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

// The published config.json's numbers.
capstan::config::Presets MiniMaxM2Options::presets() {
  auto made = decoder::rotary_preset("minimax_m2", {200064, 3072, 62, 48, 8, 1536, 196608}, 1e-6, 5e6, false);
  made.insert(made.end(), {{"head_dim", std::int64_t{128}},
                           {"rotary_dim", std::int64_t{64}},
                           {"num_experts", std::int64_t{256}},
                           {"experts_per_token", std::int64_t{8}}});
  return {{"minimax-m2", std::move(made)}};
}

capstan::config::Presets MiniMaxM2Options::file_defaults() {
  const capstan::config::Preset more{{"num_kv_heads", std::int64_t{8}},
                                     {"head_dim", std::int64_t{128}},
                                     {"num_experts", std::int64_t{256}},
                                     {"experts_per_token", std::int64_t{8}}};
  return {{"minimax_m2", decoder::rotary_defaults({.theta = 5e6, .length = 196608}, more)}};
}

std::vector<capstan::config::FileKeys> MiniMaxM2Options::file_keys() {
  const std::string other = "models of another kind are not supported";
  return decoder::file_keys({decoder::family_keys(
      "minimax_m2",
      decoder::joined(
          {decoder::rotary_keys({"partial_rotary_factor"}), decoder::own_names({"num_experts", "experts_per_token"}),
           decoder::only_keys({"output_router_logits"}, "false", "the loss of these routers is not supported"),
           decoder::only_keys({"router_jitter_noise"}, "0.0", "noise on the routers' inputs is not supported"),
           decoder::only_keys({"scoring_func"}, "\"sigmoid\"", other),
           decoder::only_keys({"qk_norm_type"}, "\"per_layer\"", other),
           decoder::only_keys({"shared_intermediate_size"}, "0", other),
           decoder::only_keys({"sliding_window"}, "null", other),
           decoder::only_keys({"use_qk_norm", "use_routing_bias"}, "true", other),
           decoder::neutral_keys({"attn_type_list", "layernorm_full_attention_beta", "layernorm_linear_attention_beta",
                                  "layernorm_mlp_beta", "mlp_intermediate_size", "mtp_transformer_layers",
                                  "num_mtp_modules", "router_aux_loss_coef", "shared_moe_mode"},
                                 "transformers does not read it in this family")}))});
}

class MiniMaxM2 : public decoder::RotaryModel<MiniMaxM2Options> {
 public:
  using RotaryModel::RotaryModel;

  void check(capstan::Diagnostics& diagnostics) const override {
    RotaryModel::check(diagnostics);
    decoder::check_routers(options_, diagnostics);
    const auto& o = *options_;
    const auto where = options_.where(&O::rotary_dim);
    if (!o.rotary_dim) return;
    if (*o.rotary_dim > o.dim()) {
      diagnostics.add(where, "model.rotary_dim is more than a head's numbers", capstan::cat("use at most ", o.dim()));
    } else {
      decoder::check_turned_part(o.dim(), o.turned(), where, diagnostics);
    }
    if (o.partial_rotary_factor != 1 && o.partial_rotary_factor != o.turned())
      diagnostics.add(where, "model.rotary_dim and model.partial_rotary_factor turn different parts", "remove one");
  }

 protected:
  decoder::Spec spec() const override {
    auto o = *options_;
    o.partial_rotary_factor = o.turned();
    auto made = o.spec();
    made.head_norms = decoder::Spec::HeadNorms::all;
    made.mixture = o.mixture();
    made.mixture.router.sigmoid = made.mixture.router.correction = true;
    made.names.router = "block_sparse_moe.gate";
    made.names.experts = "block_sparse_moe.experts";
    made.names.expert_parts = {"w1", "w3", "w2"};
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    const auto& o = *options_;
    map.architecture = "MiniMaxM2ForCausalLM";
    map.kept = {"model.mtp"};
    RotaryModel::describe_files(map);
    if (!o.rotary_dim) map.left_out.emplace_back("rotary_dim");
    map.more["partial_rotary_factor"] = capstan::cat(o.turned());  // transformers 5.17 does not read rotary_dim
    for (std::int64_t i = 0; i < o.num_layers; ++i) {
      const auto at = capstan::cat("layers.", i, ".block_sparse_moe.");
      map.tensors.at("model." + at + "gate.e_score_correction_bias").name = at + "e_score_correction_bias";
    }
  }
};

}  // namespace

CAPSTAN_MODEL("minimax_m2", "0.1.0",
              "MiniMax M2's architecture: heads that turn in part, norms of q and k, and sigmoid routers", MiniMaxM2,
              MiniMaxM2Options)

}  // namespace minimax_m2
