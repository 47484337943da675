#include "options.h"

namespace mixtral {

using capstan::config::OptionTable;

namespace {

void describe_sizes(OptionTable<MixtralOptions>& t) {
  t.add("model_type", &MixtralOptions::model_type).choices({"mixtral"}).doc("family of the config.json");
  t.add("vocab_size", &MixtralOptions::vocab_size).min(1).doc("number of token ids");
  t.add("hidden_size", &MixtralOptions::hidden_size).min(1).doc("width of the residual stream");
  t.add("num_layers", &MixtralOptions::num_layers).min(1).spelling("num_hidden_layers").doc("number of blocks");
  t.add("num_heads", &MixtralOptions::num_heads).min(1).spelling("num_attention_heads").doc("query heads");
  t.add("num_kv_heads", &MixtralOptions::num_kv_heads)
      .min(1)
      .spelling("num_key_value_heads")
      .doc("key and value heads; must divide num_heads; num_heads when not set");
  t.add("head_dim", &MixtralOptions::head_dim)
      .min(2)
      .doc("width of a head, an even number; hidden_size / num_heads when not set");
  t.add("ff_dim", &MixtralOptions::ff_dim).min(1).spelling("intermediate_size").doc("width of an expert");
  t.add("num_experts", &MixtralOptions::num_experts).min(1).spelling("num_local_experts").doc("experts in each block");
  t.add("experts_per_token", &MixtralOptions::experts_per_token)
      .min(1)
      .spelling("num_experts_per_tok")
      .doc("experts that compute each token; none is dropped");
  t.add("seq_length", &MixtralOptions::seq_length)
      .min(1)
      .spelling("max_position_embeddings")
      .doc("the longest sequence");
}

void describe_router(OptionTable<MixtralOptions>& t) {
  t.add("router_aux_loss", &MixtralOptions::router_aux_loss)
      .spelling("output_router_logits")
      .doc("add the load-balancing loss of the routers, times router_aux_loss_coef, to the loss that is trained on");
  t.add("router_aux_loss_coef", &MixtralOptions::router_aux_loss_coef).min(0).doc("weight of the load-balancing loss");
  t.add("router_jitter_noise", &MixtralOptions::router_jitter_noise)
      .min(0)
      .doc("noise on the routers' inputs in a config.json; only 0 is supported");
}

void describe_rest(OptionTable<MixtralOptions>& t) {
  t.add("rms_norm_epsilon", &MixtralOptions::rms_norm_epsilon)
      .above(0)
      .spelling("rms_norm_eps")
      .doc("added to the mean square in norms");
  t.add("rope_theta", &MixtralOptions::rope_theta)
      .above(0)
      .spelling("rope_parameters.rope_theta")
      .doc("base of the rotary frequencies");
  t.add("rope_type", &MixtralOptions::rope_type)
      .choices({"default"})
      .spelling("rope_scaling.rope_type")
      .spelling("rope_parameters.rope_type")
      .spelling("rope_scaling.type")
      .doc("how rotary frequencies are scaled: not");
  t.add("activation", &MixtralOptions::activation).choices({"silu"}).spelling("hidden_act").doc("of the gate");
  t.add("tie_word_embeddings", &MixtralOptions::tie_word_embeddings).doc("the head is the embedding");
  t.add("attention_dropout", &MixtralOptions::attention_dropout)
      .min(0)
      .max(0.99)
      .doc("dropout on attention probabilities, which then take the unfused path");
  t.add("sliding_window", &MixtralOptions::sliding_window)
      .min(1)
      .doc("tokens that attention looks back in a config.json; refused where it is less than seq_length");
  t.add("init_std", &MixtralOptions::init_std)
      .above(0)
      .spelling("initializer_range")
      .doc("standard deviation of the initial weights");
}

}  // namespace

void MixtralOptions::describe(OptionTable<MixtralOptions>& t) {
  describe_sizes(t);
  describe_router(t);
  describe_rest(t);
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
