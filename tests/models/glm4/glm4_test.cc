#include <capstan_catch.h>
#include "nn/model_summary.h"

#include "support/model.h"

namespace glm4_test {

using namespace capstan;
using capstan::testing::files_of;
using capstan::testing::make_model;
using capstan::testing::model_faults;
using capstan::testing::model_host;
using Faults = std::vector<std::string>;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

}  // namespace

TEST_CASE("glm4: presets have the published models' parameters") {
  const std::map<std::string, std::int64_t> published{
      {"glm4-9b-chat", 9399951360}, {"glm4-9b-0414", 9400279040}, {"glm4-32b-0414", 32566081536}};
  CHECK(model_host().load("model", "glm4").presets.size() == published.size());
  for (const auto& [preset, parameters] : published) {
    INFO(preset);
    CHECK(nn::summarise(make_model("glm4", {}, preset)->build()).parameters == parameters);
  }
}

TEST_CASE("glm4: files hold gate and up as one module; a glm has no norms after its layers") {
  const auto files = [](const std::string& type) {
    return files_of(*make_model("glm4", {{"model_type", type},
                                         {"num_layers", integer(1)},
                                         {"hidden_size", integer(16)},
                                         {"num_heads", integer(4)},
                                         {"num_kv_heads", integer(2)},
                                         {"ff_dim", integer(20)},
                                         {"vocab_size", integer(31)}}));
  };
  std::map<std::string, layout::Shape> expected{{"embed_tokens.weight", {31, 16}},
                                                {"layers.0.input_layernorm.weight", {16}},
                                                {"layers.0.self_attn.q_proj.weight", {16, 16}},
                                                {"layers.0.self_attn.q_proj.bias", {16}},
                                                {"layers.0.self_attn.k_proj.weight", {8, 16}},
                                                {"layers.0.self_attn.k_proj.bias", {8}},
                                                {"layers.0.self_attn.v_proj.weight", {8, 16}},
                                                {"layers.0.self_attn.v_proj.bias", {8}},
                                                {"layers.0.self_attn.o_proj.weight", {16, 16}},
                                                {"layers.0.post_attention_layernorm.weight", {16}},
                                                {"layers.0.mlp.gate_up_proj.weight", {40, 16}},
                                                {"layers.0.mlp.down_proj.weight", {16, 20}},
                                                {"norm.weight", {16}},
                                                {"lm_head.weight", {31, 16}}};
  CHECK(files("glm") == expected);
  expected["layers.0.post_self_attn_layernorm.weight"] = {16};
  expected["layers.0.post_mlp_layernorm.weight"] = {16};
  CHECK(files("glm4") == expected);
}

TEST_CASE("glm4: what does not fit is refused with its line and what to do") {
  CHECK_THAT(model_faults("glm4", {{"head_dim", integer(14)}}).front(), Contains("7 of a head's 14 numbers"));
  CHECK(model_faults("glm4", {{"model_type", std::string("chatglm")}}).size() == 1);
}

}  // namespace glm4_test
