// Adapters beside experts in MXFP4, on ranks that share them: what one rank learns.
#include <capstan/base/text.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

namespace equality_test {

using namespace capstan;

namespace {

const std::string model =
    "[model]\nplugin = \"gpt_oss\"\nvocab_size = 61\nhidden_size = 32\nnum_layers = 2\nnum_heads = 4\nnum_kv_heads = "
    "2\n"
    "head_dim = 6\nff_dim = 64\nnum_experts = 4\nexperts_per_token = 2\nsliding_window = 5\nseq_length = 24\n"
    "init_std = 0.2\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";
const std::string kept = "[strategy.mxfp4]\n";

testing::TrainResult train(int world, const std::string& tables) {
  return testing::train({.world = world, .config = model + tables, .overrides = {"train.accumulation=1"}, .steps = 3});
}

std::string fault_of(const std::string& tables) {
  try {
    (void)testing::train({.config = tables, .steps = 1});
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("adapters beside experts in MXFP4 learn on ranks what they learn on one", "[matrix]") {
  const auto alone = train(1, lora + kept);
  CHECK(alone.losses.back() < alone.losses.front());
  CHECK(testing::differences(alone, train(1, lora), 1e-10) != "");  // 4 bits are another model
  for (const std::string layout :
       {"[strategy.tensor_parallel]\nsize = 2\n", "[strategy.tensor_parallel]\nsize = 2\nsequence_parallel = true\n",
        "[strategy.expert_parallel]\nsize = 2\n", "[strategy.fsdp]\nmode = \"full_shard\"\n",
        "[strategy.pipeline_parallel]\nsize = 2\n",
        "[strategy.pipeline_parallel]\nsize = 2\nschedule = \"zero_bubble\"\n[strategy.recompute]\n"}) {
    INFO(layout);
    CHECK(testing::differences(train(2, cat(lora, kept, layout)), alone, 1e-10) == "");
  }
}

TEST_CASE("what is trained, and a model without experts, is refused") {
  CHECK_THAT(fault_of(model + kept), Contains("strategy.mxfp4 keeps model.layers.0.mlp.experts.gate_up_proj in 4 bits, "
                                              "and it would be trained") &&
                                         Contains("add strategy.lora"));
  CHECK_THAT(fault_of("[model]\nplugin = \"llama\"\nvocab_size = 61\nhidden_size = 32\nnum_layers = 1\nnum_heads = 4\n"
                      "ff_dim = 64\nseq_length = 24\n" +
                      lora + kept),
             Contains("this model has no experts"));
}

}  // namespace equality_test
