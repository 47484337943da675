#include "options.h"

#include <capstan/nn/rotary_options.h>

namespace mixtral {

using capstan::config::OptionTable;

namespace {

void describe_experts(OptionTable<MixtralOptions>& t) {
  t.add("num_experts", &MixtralOptions::num_experts).min(1).spelling("num_local_experts").doc("experts in each block");
  t.add("experts_per_token", &MixtralOptions::experts_per_token)
      .min(1)
      .spelling("num_experts_per_tok")
      .doc("experts that compute each token; none is dropped");
  t.add("router_aux_loss", &MixtralOptions::router_aux_loss)
      .spelling("output_router_logits")
      .doc("add the load-balancing loss of the routers, times router_aux_loss_coef, to the loss that is trained on");
  t.add("router_aux_loss_coef", &MixtralOptions::router_aux_loss_coef).min(0).doc("weight of the load-balancing loss");
  t.add("router_jitter_noise", &MixtralOptions::router_jitter_noise)
      .min(0)
      .doc("noise on the routers' inputs in a config.json; only 0 is supported");
}

}  // namespace

void MixtralOptions::describe(OptionTable<MixtralOptions>& t) {
  t.add("model_type", &MixtralOptions::model_type).choices({"mixtral"}).doc("family of the config.json");
  capstan::nn::describe_rotary_sizes(t, "an expert");
  describe_experts(t);
  capstan::nn::describe_rotary_positions(t, {"default"}, "not");
  capstan::nn::describe_rotary_rest(t);
}

// The published config.json's numbers.
capstan::config::Presets MixtralOptions::presets() {
  return {{"mixtral-8x7b",
           {{"vocab_size", std::int64_t{32000}},
            {"hidden_size", std::int64_t{4096}},
            {"num_layers", std::int64_t{32}},
            {"num_heads", std::int64_t{32}},
            {"num_kv_heads", std::int64_t{8}},
            {"ff_dim", std::int64_t{14336}},
            {"num_experts", std::int64_t{8}},
            {"experts_per_token", std::int64_t{2}},
            {"seq_length", std::int64_t{32768}},
            {"rms_norm_epsilon", 1e-5},
            {"rope_theta", 1e6},
            {"router_aux_loss_coef", 0.02}}}};
}

}  // namespace mixtral
