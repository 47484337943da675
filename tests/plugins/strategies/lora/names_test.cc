#include "plugins/strategies/lora/names.h"

#include <capstan_catch.h>

#include "plugins/strategies/lora/jobs.h"

namespace names_test {

using namespace capstan;
using namespace lora_test;

TEST_CASE("a name means the modules whose path ends with it, in whole parts") {
  lora::Names names(std::vector<std::string>{"q_proj", "mlp.up_proj", "norm"});
  CHECK(names.take_module("model.layers.0.self_attn.q_proj"));
  CHECK(names.take_module("q_proj"));
  CHECK_FALSE(names.take_module("model.layers.0.self_attn.eq_proj"));
  CHECK_FALSE(names.take_module("model.layers.0.other_mlp.up_proj"));
  CHECK_FALSE(names.take_module("up_proj"));
  CHECK_FALSE(names.take_module(""));
  CHECK_FALSE(names.take("linear_qkv"));
  CHECK(names.unused() == std::vector<std::string>{"mlp.up_proj", "norm"});
  CHECK(names.take("norm"));
  CHECK(names.take_module("model.layers.1.mlp.up_proj"));
  CHECK(names.unused().empty());
}

TEST_CASE("names that mean nothing in the model are refused, all at once, with what can be named there") {
  const auto text = refusal(mixtral + lora_table("targets = [\"linear_qvk\", \"w1\", \"lm_head\", \"model.norm\"]\n"
                                                 "modules_to_save = [\"head\", \"w2\", \"all-linear\"]\n"));
  CHECK_THAT(text,
             Contains("strategy.lora.targets names \"linear_qvk\", but the model has: all-linear, linear_qkv, "
                      "q_proj, k_proj, v_proj, linear_proj, o_proj, router, gate, linear_fc1, linear_fc2, experts\n"));
  CHECK_THAT(text, Contains("did you mean 'linear_qkv'?"));
  CHECK_THAT(text, Contains("use \"experts\": each expert gets") && Contains("use \"experts\", which trains them all"));
  CHECK_THAT(text, Contains("names \"lm_head\", which gets no adapter") &&
                       Contains("fix: train it whole: strategy.lora.modules_to_save = [\"lm_head\"]\n") &&
                       Contains("strategy.lora.modules_to_save = [\"norm\"]"));
  CHECK_THAT(text,
             Contains("strategy.lora.modules_to_save names \"head\", but the model has: embed_tokens, ") &&
                 Contains("strategy.lora.modules_to_save names \"all-linear\", but the model has: embed_tokens, "));
  CHECK_THAT(refusal(gpt + lora_table("modules_to_save = [\"lm_head\"]\n")),
             Contains("names \"lm_head\", but this model's head is its embedding") &&
                 Contains("fix: name \"wte\", which trains both"));
  CHECK_THAT(refusal(gpt + lora_table("targets = [\"lm_head\"]\n")),
             Contains("modules_to_save = [\"wte\"], since this model's head is its embedding"));
  CHECK_THAT(refusal(llama + lora_table("targets = [\"linear_qkv\", \"q_proj\"]\n")),
             Contains("names model.layers.0.self_attn.q_proj.weight twice"));
}

}  // namespace names_test
