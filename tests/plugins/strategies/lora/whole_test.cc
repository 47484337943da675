#include <capstan_catch.h>

#include "plugins/strategies/lora/jobs.h"

namespace whole_test {

using namespace capstan;
using namespace lora_test;

TEST_CASE("what is to be trained whole gets no adapter, under any of its names") {
  const auto changes = [](const std::string& model, const std::string& target, const std::string& whole) {
    return planned(model + lora_table("targets = [\"" + target + "\"]\nmodules_to_save = [" + whole + "]\n"))
        .model->changes;
  };
  const auto experts = changes(mixtral, "linear_proj", "\"experts\"");
  CHECK_THAT(experts, Contains("with strategies: 3,456 trainable + "));  // 2 · 108 besides o_proj, and 2 · 1,620
  CHECK_THAT(experts, !Contains("Adding lora to: model.layers.0.block_sparse_moe"));
  CHECK_THAT(changes(mixtral, "linear_proj", "\"linear_fc1\""), Contains("with strategies: 2,376 trainable + "));
  for (const char* router : {"\"router\"", "\"gate\"", "\"block_sparse_moe.gate\""})
    CHECK_THAT(changes(mixtral, "linear_proj", router), Contains("with strategies: 324 trainable + "));
  for (const char* whole : {"\"linear_qkv\"", "\"q_proj\", \"k_proj\", \"v_proj\""}) {
    const auto text = changes(llama, "down_proj", whole);
    CHECK_THAT(text, Contains("with strategies: 1,320 trainable + "));  // 2 · 120 besides down_proj, and 2 · 540
    CHECK_THAT(text, !Contains("Adding lora to: model.layers.0.self_attn"));
  }
}

TEST_CASE("a part of what is stored as one is not trained by itself, nor in silence with the rest") {
  const auto text =
      refusal(llama + lora_table("targets = [\"down_proj\"]\nmodules_to_save = [\"q_proj\", \"mlp.up_proj\"]\n"));
  CHECK_THAT(text, Contains("modules_to_save names q_proj, stored and trained together with k_proj and v_proj") &&
                       Contains("fix: name all of them: \"q_proj\", \"k_proj\", \"v_proj\"") &&
                       Contains("modules_to_save names up_proj, stored and trained together with gate_proj"));
  const auto biased = llama + "attention_bias = true\n";
  CHECK_THAT(
      refusal(biased + lora_table("targets = [\"q_proj\"]\nbias = \"lora_only\"\n")),
      Contains("strategy.lora.bias is \"lora_only\", and of \"q_proj\", \"k_proj\", \"v_proj\", whose biases are "
               "stored and trained together, only q_proj has adapters") &&
          Contains("or the role \"linear_qkv\""));
  // Two layers: A 3 · 18, B 30 · 3, and 30 biases.
  CHECK_THAT(planned(biased + lora_table("targets = [\"linear_qkv\"]\nbias = \"lora_only\"\n")).model->changes,
             Contains("with strategies: 348 trainable + "));
}

}  // namespace whole_test
