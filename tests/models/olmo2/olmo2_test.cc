#include <capstan_catch.h>
#include "nn/model_summary.h"

#include "support/model.h"

namespace olmo2_test {

using namespace capstan;
using capstan::testing::files_of;
using capstan::testing::make_model;
using capstan::testing::model_host;

TEST_CASE("olmo2: presets have the published models' parameters") {
  const std::map<std::string, std::int64_t> published{
      {"olmo2-1b", 1484916736}, {"olmo2-7b", 7298617344}, {"olmo2-13b", 13716198400}, {"olmo2-32b", 32234279936}};
  CHECK(model_host().load("model", "olmo2").presets.size() == published.size());
  for (const auto& [preset, parameters] : published) {
    INFO(preset);
    CHECK(nn::summarise(make_model("olmo2", {}, preset)->build()).parameters == parameters);
  }
}

TEST_CASE("olmo2: norms stand after the layers, and those of q and k are over all heads") {
  const auto integer = [](std::int64_t value) { return value; };
  const auto model = make_model("olmo2", {{"num_layers", integer(1)},
                                          {"hidden_size", integer(16)},
                                          {"num_heads", integer(4)},
                                          {"num_kv_heads", integer(2)},
                                          {"ff_dim", integer(20)},
                                          {"vocab_size", integer(31)}});
  const std::map<std::string, layout::Shape> expected{{"embed_tokens.weight", {31, 16}},
                                                      {"layers.0.self_attn.q_proj.weight", {16, 16}},
                                                      {"layers.0.self_attn.k_proj.weight", {8, 16}},
                                                      {"layers.0.self_attn.v_proj.weight", {8, 16}},
                                                      {"layers.0.self_attn.o_proj.weight", {16, 16}},
                                                      {"layers.0.self_attn.q_norm.weight", {16}},
                                                      {"layers.0.self_attn.k_norm.weight", {8}},
                                                      {"layers.0.post_attention_layernorm.weight", {16}},
                                                      {"layers.0.mlp.gate_proj.weight", {20, 16}},
                                                      {"layers.0.mlp.up_proj.weight", {20, 16}},
                                                      {"layers.0.mlp.down_proj.weight", {16, 20}},
                                                      {"layers.0.post_feedforward_layernorm.weight", {16}},
                                                      {"norm.weight", {16}},
                                                      {"lm_head.weight", {31, 16}}};
  CHECK(files_of(*model) == expected);
}

}  // namespace olmo2_test
