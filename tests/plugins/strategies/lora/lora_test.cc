// What is trained next to a frozen model, and how it counts.
#include <ATen/ATen.h>
#include <capstan/base/text.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <algorithm>

#include "plugins/strategies/lora/jobs.h"

namespace lora_test {

using namespace capstan;
using namespace lora_test;

TEST_CASE("only adapters, and what is asked for besides them, are trained") {
  const auto names = [](const std::string& config) {
    std::vector<std::string> list;
    for (const auto& [name, gradient] :
         testing::train({.world = 2, .config = config + "[strategy.fsdp]\n", .steps = 1}).gradients)
      list.push_back(name);
    return list;
  };
  CHECK(names(llama + lora_table("targets = [\"linear_qkv\"]\n")) ==
        std::vector<std::string>{
            "model.layers.0.self_attn.k_proj.lora_B.weight", "model.layers.0.self_attn.linear_qkv.lora_A.weight",
            "model.layers.0.self_attn.q_proj.lora_B.weight", "model.layers.0.self_attn.v_proj.lora_B.weight",
            "model.layers.1.self_attn.k_proj.lora_B.weight", "model.layers.1.self_attn.linear_qkv.lora_A.weight",
            "model.layers.1.self_attn.q_proj.lora_B.weight", "model.layers.1.self_attn.v_proj.lora_B.weight"});
  const auto biases = names(bloom + lora_table("targets = [\"dense\"]\nbias = \"lora_only\"\n"));
  CHECK(std::count(biases.begin(), biases.end(), "h.0.self_attention.dense.bias") == 1);
  CHECK(std::none_of(biases.begin(), biases.end(),
                     [](const auto& name) { return name.ends_with("query_key_value.bias"); }));
  const auto all = names(bloom + lora_table("targets = [\"dense\"]\nbias = \"all\"\nmodules_to_save = [\"ln_f\"]\n"));
  CHECK(std::count(all.begin(), all.end(), "h.1.self_attention.query_key_value.bias") == 1);
  CHECK(std::count(all.begin(), all.end(), "ln_f.weight") == 1);
}

TEST_CASE("an adapter begins as nothing, unless it is drawn") {
  const auto base = testing::train({.world = 1, .config = llama, .steps = 1});
  const auto zeros = testing::train({.world = 1, .config = llama + "[strategy.lora]\n", .steps = 1});
  CHECK(zeros.losses.front() == base.losses.front());
  const auto random = testing::train({.world = 1, .config = llama + lora_table(""), .steps = 1});
  CHECK(random.losses.front() != base.losses.front());
}

TEST_CASE("Llama-3.1-8B's adapters count as NeMo's and as PEFT's do") {
  const std::string model = "[model]\nplugin = \"llama\"\npreset = \"llama3.1-8b\"\n[strategy.lora]\nrank = 32\n";
  const auto roles = planned(model + "targets = [\"linear_qkv\", \"linear_proj\"]\n");
  CHECK_THAT(roles.model->changes, Contains("18,874,368 trainable + 8,030,261,248 non-trainable = 8,049,135,616"));
  CHECK_THAT(roles.model->changes, Contains("Adding lora to: model.layers.31.self_attn.linear_qkv\n"));
  CHECK_THAT(roles.model_summary(), Contains("model llama: 8,030,261,248 parameters"));
  CHECK_THAT(planned(model + "targets = [\"q_proj\", \"k_proj\", \"v_proj\", \"o_proj\"]\n").model->changes,
             Contains("27,262,976 trainable + 8,030,261,248 non-trainable"));
}

TEST_CASE("all-linear is every module of a block, a mixture's router and experts too") {
  const auto text = planned(mixtral + lora_table("targets = [\"all-linear\"]\n")).model->changes;
  for (const char* module :
       {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "block_sparse_moe.gate",
        "block_sparse_moe.experts.gate_up_proj", "block_sparse_moe.experts.down_proj"}) {
    CHECK_THAT(text, Contains(cat("Adding lora to: model.layers.1.", module, "\n")));
  }
  CHECK_THAT(text, !Contains("lm_head"));
  // Rank 3 in two layers: q, k, v, o 108 each; router 3 · (18 + 3); three experts with gate and up 3 · (18 + 20), down
  // 3 · (10 + 18).
  CHECK_THAT(text, Contains("with strategies: 2,178 trainable + "));
}

TEST_CASE("a run that would train nothing is refused") {
  CHECK_THAT(refusal(llama + lora_table("targets = []\n")),
             Contains("strategy.lora.targets is empty") && Contains(".toml:"));
  CHECK_THAT(planned(llama + lora_table("targets = []\nmodules_to_save = [\"norm\"]\n")).model->changes,
             Contains("with strategies: 18 trainable + "));
}

}  // namespace lora_test
