#include "options.h"

namespace lora {

void LoraOptions::describe(capstan::config::OptionTable<LoraOptions>& t) {
  t.add("rank", &LoraOptions::rank).min(1).max(65536).spelling("r").spelling("dim").doc("rank of each adapter");
  t.add("alpha", &LoraOptions::alpha)
      .above(0)
      .spelling("lora_alpha")
      .doc("what an adapter adds is multiplied by alpha / rank; by default alpha is the rank");
  t.add("dropout", &LoraOptions::dropout)
      .min(0)
      .max(0.99)
      .spelling("lora_dropout")
      .doc("dropout on what goes into an adapter");
  t.add("targets", &LoraOptions::targets)
      .spelling("target_modules")
      .doc(
          "layers that get adapters, by NeMo's roles (linear_qkv: one adapter for q, k and v; linear_proj; linear_fc1; "
          "linear_fc2; experts: each expert its own) or by Hugging Face's module names (q_proj: an adapter of its own; "
          "the end of a name is enough), or \"all-linear\": every module of a block, routers and experts too");
  t.add("init", &LoraOptions::init)
      .choices({"kaiming", "random"})
      .spelling("init_lora_weights")
      .doc(
          "kaiming: A evenly drawn within 1 / sqrt(inputs), B zeros, so that training starts from the base model; "
          "random: B drawn as well, for tests");
  t.add("rank_stabilised", &LoraOptions::rank_stabilised)
      .spelling("use_rslora")
      .doc("multiply by alpha / sqrt(rank) instead");
  t.add("bias", &LoraOptions::bias)
      .choices({"none", "all", "lora_only"})
      .doc("which of the model's biases are trained too: none, all, or those of layers with adapters");
  t.add("modules_to_save", &LoraOptions::modules_to_save)
      .doc("modules, or layers by their role, that are trained whole beside the adapters, such as [\"lm_head\"]");
  t.add("adapter", &LoraOptions::adapter)
      .path()
      .doc("folder of a PEFT adapter (adapter_model.safetensors) to start from");
}

}  // namespace lora
