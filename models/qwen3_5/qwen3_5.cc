// Qwen 3.5's text models, dense or with routed experts, and Qwen 3 Next: three blocks of the gated delta rule (Yang et
// al. 2024), then one of attention with a gate, of whose heads a part turns; norms multiply by 1 + weight.
#include <capstan/base/text.h>
#include <capstan/model.h>

#include "options.h"

namespace qwen3_5 {

using capstan::cat;
namespace decoder = capstan::decoder;

void Qwen35Options::describe(capstan::config::OptionTable<Qwen35Options>& t) {
  t.add("model_type", &Qwen35Options::model_type)
      .choices({"qwen3_5_text", "qwen3_5_moe_text", "qwen3_next"})
      .doc("family of the config.json; the last two have routed experts and one that computes every token");
  decoder::describe_rotary_sizes(t, "the gated feed-forward layer, where there are no experts");
  describe_hybrid(t);
  t.add("expert_dim", &Qwen35Options::expert_dim).min(1).spelling("moe_intermediate_size").doc("width of an expert");
  t.add("shared_expert_dim", &Qwen35Options::shared_expert_dim)
      .min(1)
      .spelling("shared_expert_intermediate_size")
      .doc("width of the expert that computes every token");
  decoder::describe_routers(t, "num_local_experts");  // what transformers 5 writes
  t.add("experts_together", &Qwen35Options::experts_together)
      .doc("files hold all experts of a block in two tensors, as published; else three of each, as transformers saves");
  t.add("attention_bias", &Qwen35Options::attention_bias).doc("biases on q, k, v and the output product of attention");
  decoder::describe_partial_rotary(t);
  decoder::describe_rotary_scaling(t);
  decoder::describe_rotary_rest(t);
}

namespace {

class Qwen35 : public decoder::Model {
 public:
  explicit Qwen35(capstan::config::Options<Qwen35Options> options) : options_(std::move(options)) {}

  void check(capstan::Diagnostics& diagnostics) const override {
    decoder::check_rotary(options_, diagnostics);
    decoder::check_rotary_scaling(options_, diagnostics);
    check_hybrid(options_, options_->num_layers, diagnostics);
    if (options_->has_experts()) decoder::check_routers(options_, diagnostics);
  }

 protected:
  decoder::Spec spec() const override {
    const auto& o = *options_;
    auto made = o.spec();
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
    made.names.experts_together = o.experts_together;
    return made;
  }

  void describe_files(capstan::layout::FileMap& map) const override {
    const auto& o = *options_;
    map.architecture = o.is_next()       ? "Qwen3NextForCausalLM"
                       : o.has_experts() ? "Qwen3_5MoeForCausalLM"
                                         : "Qwen3_5ForCausalLM";
    map.kept = {"mtp."};
    decoder::describe_rotary_files(o, map);
    decoder::describe_rotary_scaling_files(o, map);
    describe_hybrid_files(o, o.num_layers, map);
    map.left_out.emplace_back("experts_together");
    for (std::int64_t i = 0; i < o.num_layers; ++i)
      if (!o.attends(i)) GatedDeltaNet::describe_files(sizes(), cat("model.layers.", i, "."), map);
    if (o.has_experts()) {
      if (!o.is_next()) map.left_out.emplace_back("ff_dim");
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
    made.by_head = options_->is_next();
    return made;
  }

  capstan::config::Options<Qwen35Options> options_;
};

}  // namespace

CAPSTAN_MODEL("qwen3_5", "0.1.0",
              "Qwen 3.5's text models, dense or a mixture, and Qwen 3 Next: the gated delta rule, and attention",
              Qwen35, Qwen35Options)

}  // namespace qwen3_5
