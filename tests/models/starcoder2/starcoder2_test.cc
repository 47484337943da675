#include <capstan_catch.h>

#include "support/model.h"

namespace starcoder2_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("starcoder2: presets have the published models' parameters") {
  CHECK(parameters_of_presets("starcoder2") == std::map<std::string, std::int64_t>{{"starcoder2-3b", 3030371328},
                                                                                   {"starcoder2-7b", 7173923840},
                                                                                   {"starcoder2-15b", 15957889024}});
}

TEST_CASE("starcoder2: norms and products have biases, products only if they are asked for") {
  std::map<std::string, layout::Shape> expected{{"embed_tokens.weight", {31, 16}},
                                                {"layers.0.input_layernorm.weight", {16}},
                                                {"layers.0.input_layernorm.bias", {16}},
                                                {"layers.0.self_attn.q_proj.weight", {16, 16}},
                                                {"layers.0.self_attn.k_proj.weight", {8, 16}},
                                                {"layers.0.self_attn.v_proj.weight", {8, 16}},
                                                {"layers.0.self_attn.o_proj.weight", {16, 16}},
                                                {"layers.0.post_attention_layernorm.weight", {16}},
                                                {"layers.0.post_attention_layernorm.bias", {16}},
                                                {"layers.0.mlp.c_fc.weight", {20, 16}},
                                                {"layers.0.mlp.c_proj.weight", {16, 20}},
                                                {"norm.weight", {16}},
                                                {"norm.bias", {16}}};
  CHECK(files_of(*make_model("starcoder2", tiny_with({{"use_bias", false}}))) == expected);
  const std::string block = "layers.0.";
  for (const char* module : {"self_attn.q_proj", "self_attn.o_proj", "mlp.c_proj"})
    expected[block + module + ".bias"] = {16};
  for (const char* module : {"self_attn.k_proj", "self_attn.v_proj"}) expected[block + module + ".bias"] = {8};
  expected[block + "mlp.c_fc.bias"] = {20};
  CHECK(files_of(*make_model("starcoder2", tiny_with({}))) == expected);
}

TEST_CASE("starcoder2: its files name the norms' epsilon in their own way") {
  CHECK(model_faults("starcoder2", tiny_with({{"norm_epsilon", 0.0}})).size() == 1);
  CHECK(model_faults("starcoder2", tiny_with({{"rms_norm_eps", 1e-5}})).size() == 1);
}

}  // namespace starcoder2_test
