#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "axolotl_file.h"

namespace strategies_test {

using namespace capstan;
using test::axolotl_faults;
using test::import_axolotl_text;

namespace {

std::string toml(const std::string& members) { return import_axolotl_text(members).toml; }

}  // namespace

TEST_CASE("an adapter is taken over with its keys; without one they mean nothing") {
  const auto lora = toml(R"("adapter": "lora", "lora_r": 16, "lora_alpha": 32, "lora_dropout": 0.05,
"lora_target_modules": ["q_proj", "v_proj"], "lora_modules_to_save": ["lm_head"], "peft_use_rslora": true)");
  for (const char* line :
       {"rank = 16  # lora_r, line 2", "alpha = 32", "dropout = 0.05", "targets = [\"q_proj\", \"v_proj\"]",
        "modules_to_save = [\"lm_head\"]", "rank_stabilised = true"})
    CHECK_THAT(lora, Contains(cat("\n", line)));
  CHECK_THAT(toml(R"("adapter": null, "lora_r": 16, "lora_target_linear": true)"), !Contains("[strategy.lora]"));
  CHECK_THAT(join(axolotl_faults(R"("adapter": "llama-adapter")")), Contains("adapter is llama-adapter"));
}

TEST_CASE("an adapter's targets: all, by name, experts, or to be chosen") {
  CHECK_THAT(toml(R"("adapter": "lora", "lora_target_linear": true)"), Contains("\ntargets = [\"all-linear\"]"));
  CHECK_THAT(toml(R"("adapter": "lora", "lora_target_modules": "all-linear")"),
             Contains("\ntargets = [\"all-linear\"]"));
  CHECK_THAT(toml(R"("adapter": "lora", "lora_target_modules": ["q_proj"], "lora_target_parameters":
["mlp.experts.gate_up_proj", "mlp.experts.down_proj"])"),
             Contains("\ntargets = [\"q_proj\", \"experts\"]"));
  const auto open = toml(R"("adapter": "lora", "lora_target_modules": "layers.[\\d]+.(mlp|self_attn).q_proj")");
  CHECK_THAT(open, Contains("\n[strategy.lora]\n# targets = [\"q_proj\", \"v_proj\"]  # choose") ||
                       Contains("\n# [strategy.lora]\n# targets"));
  CHECK_THAT(toml(R"("adapter": "lora", "lora_r": 8)"), Contains("\n# targets = ") && Contains("\nrank = 8"));
}

TEST_CASE("4 bits are nf4; 8-bit integers are to be chosen, and neither goes without an adapter") {
  CHECK_THAT(toml(R"("adapter": "qlora", "load_in_4bit": true, "lora_target_linear": true)"),
             Contains("\n[strategy.nf4]\ntargets = [\"all-linear\"]  # load_in_4bit"));
  CHECK_THAT(toml(R"("adapter": "qlora", "lora_target_linear": true)"), Contains("\n[strategy.nf4]"));
  CHECK_THAT(toml(R"("adapter": "lora", "load_in_8bit": true, "lora_target_linear": true)"),
             Contains("\n# [strategy.fp8]\n# store = \"fp8\"  # choose"));
  CHECK_THAT(join(axolotl_faults(R"("load_in_4bit": true)")),
             Contains("load_in_4bit keeps all trained weights in few bits"));
  CHECK_THAT(join(axolotl_faults(R"("adapter": "qlora", "load_in_4bit": true, "lora_target_linear": true,
"bnb_config_kwargs": {"bnb_4bit_use_double_quant": false, "bnb_4bit_quant_type": "fp4"})")),
             Contains("bnb_4bit_use_double_quant is false") && Contains("bnb_4bit_quant_type is fp4"));
}

TEST_CASE("LoRA+ is a group of the optimizer, and Muon updates adapters") {
  const auto plus =
      toml(R"("adapter": "lora", "lora_target_linear": true, "loraplus_lr_ratio": 16, "optimizer": "muon")");
  CHECK_THAT(plus,
             Contains("\n[optimizer.groups.lora_plus]\nrecords = [\"*lora_B*\"]") && Contains("\nlr_factor = 16"));
  CHECK_THAT(plus, Contains("\nadapters = true"));
}

TEST_CASE("recompute and offload of activations") {
  CHECK_THAT(toml(R"("gradient_checkpointing": true)"),
             Contains("\n[strategy.recompute]\nevery = 1") && !Contains("offload"));
  CHECK_THAT(toml(R"("gradient_checkpointing": "offload")"), Contains("\nevery = 1") && Contains("\noffload = 1"));
  CHECK_THAT(
      toml(R"("gradient_checkpointing": true, "activation_offloading": "legacy", "selective_checkpointing": true)"),
      Contains("\noffload = 1") && Contains("\nkeep_attention = true"));
  CHECK_THAT(toml(R"("gradient_checkpointing": false, "activation_offloading": false)"), !Contains("recompute"));
}

TEST_CASE("FSDP's keys are taken with and without fsdp_ before them") {
  const auto older = toml(R"("fsdp": ["full_shard", "auto_wrap"],
"fsdp_config": {"fsdp_offload_params": true, "fsdp_sharding_strategy": "FULL_SHARD", "fsdp_backward_prefetch":
"BACKWARD_POST", "fsdp_transformer_layer_cls_to_wrap": "LlamaDecoderLayer", "fsdp_state_dict_type": "FULL_STATE_DICT"})");
  CHECK_THAT(older, Contains("\nmode = \"full_shard\"") && Contains("\ncpu_offload = true") &&
                        Contains("\nbackward_prefetch = \"post\"") &&
                        Contains("is not taken over: every block is a unit"));
  const auto newer = toml(R"("fsdp_version": 2, "fsdp_config": {"offload_params": false, "reshard_after_forward": false,
"activation_checkpointing": true})");
  CHECK_THAT(newer, Contains("\nmode = \"full_shard\"") && Contains("\nreshard_after_forward = false") &&
                        Contains("\n[strategy.recompute]\nevery = 1"));
  CHECK_THAT(toml(R"("dp_shard_size": 2, "dp_replicate_size": 4, "fsdp_config": {"reshard_after_forward": true})"),
             Contains("\nmode = \"hybrid_shard\"") && Contains("\nshard_size = 2"));
  CHECK_THAT(toml(R"("fsdp": null, "fsdp_config": null)"), !Contains("[strategy.fsdp]"));
  CHECK_THAT(join(axolotl_faults(R"("fsdp": ["ful_shard"])")), Contains("fsdp names ful_shard"));
  CHECK_THAT(join(axolotl_faults(R"("fsdp": ["full_shard"], "fsdp_config": {"sharding_strategy": "NO_SHARD"})")),
             Contains("strategy.fsdp.mode = \"no_shard\", and fsdp, line 2 \"full_shard\" (remove one of the two)"));
}

TEST_CASE("parallelism above 1, and DeepSpeed by its own command") {
  CHECK_THAT(toml(R"("tensor_parallel_size": 2, "context_parallel_size": 4, "expert_parallel_size": 8)"),
             Contains("\n[strategy.tensor_parallel]\nsize = 2") &&
                 Contains("\n[strategy.context_parallel]\nsize = 4") &&
                 Contains("\n[strategy.expert_parallel]\nsize = 8"));
  CHECK_THAT(toml(R"("tensor_parallel_size": 1, "sequence_parallel_degree": 1)"), !Contains("parallel]"));
  const auto zero = import_axolotl_text(R"("deepspeed": "configs/zero2.json")");
  CHECK_THAT(zero.toml, Contains("\n# [strategy.zero]\n"));
  CHECK_THAT(join(zero.choices), Contains("a.yml:2: deepspeed: choose strategy.zero.stage: `capstan import-deepspeed "
                                          "configs/zero2.json` prints this table"));
}

TEST_CASE("preferences are the objective dpo, with the reference that axolotl takes") {
  const std::string data = R"("datasets": [{"path": "org/rows", "type": "chat_template.argilla"}], )";
  const auto dpo = toml(data + R"("rl": "dpo", "rl_beta": 0.2, "adapter": "lora", "lora_target_linear": true)");
  CHECK_THAT(dpo, Contains("\n[objective]\nplugin = \"dpo\"  # rl") && Contains("\nloss = \"sigmoid\"") &&
                      Contains("\nreference = \"base\"") && Contains("\nbeta = 0.2") && Contains("\npairs = true"));
  CHECK_THAT(toml(data + R"("rl": "ipo", "trl": {"beta": 0.3})"),
             Contains("\nloss = \"ipo\"") && Contains("\nreference = \"start\"") && Contains("\nbeta = 0.3"));
  CHECK_THAT(toml(data + R"("rl": "orpo", "orpo_alpha": 0.2)"), Contains("\nlambda = 0.2") && !Contains("reference"));
  CHECK_THAT(toml(data + R"("rl": "simpo", "rl_beta": 2, "simpo_gamma": 1)"),
             Contains("\ngamma = 1") && !Contains("reference"));
  CHECK_THAT(toml(data + R"("rl": "dpo", "dpo_loss_type": ["ipo"])"), Contains("\nloss = \"ipo\""));
  CHECK_THAT(
      toml(data + R"("rl": "dpo", "adapter": "lora", "lora_target_linear": true, "lora_modules_to_save": ["lm_head"])"),
      Contains("\nreference = \"start\""));
  CHECK_THAT(join(axolotl_faults(R"("rl": "grpo")")), Contains("rl is grpo, which Capstan does not offer"));
  CHECK_THAT(join(axolotl_faults(R"("rl": "kto")")), Contains("rl is kto, whose data are not translated"));
  CHECK_THAT(join(axolotl_faults(data + R"("rl": "dpo", "dpo_loss_type": ["hinge"])")),
             Contains("dpo_loss_type is hinge"));
}

}  // namespace strategies_test
