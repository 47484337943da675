#include <capstan_catch.h>

#include "support/model.h"

namespace nemotron_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("nemotron: presets have the published models' parameters") {
  CHECK(parameters_of_presets("nemotron") == std::map<std::string, std::int64_t>{{"nemotron4-15b", 15628775424},
                                                                                 {"minitron-8b", 8271699968},
                                                                                 {"minitron-4b", 4190509056}});
}

TEST_CASE("nemotron: a feed-forward layer has two products, and norms have biases and weights that begin with 0") {
  const auto model = make_model("nemotron", tiny_with({{"head_dim", std::int64_t{8}}}));
  const std::map<std::string, layout::Shape> expected{{"embed_tokens.weight", {31, 16}},
                                                      {"layers.0.input_layernorm.weight", {16}},
                                                      {"layers.0.input_layernorm.bias", {16}},
                                                      {"layers.0.self_attn.q_proj.weight", {32, 16}},
                                                      {"layers.0.self_attn.k_proj.weight", {16, 16}},
                                                      {"layers.0.self_attn.v_proj.weight", {16, 16}},
                                                      {"layers.0.self_attn.o_proj.weight", {16, 32}},
                                                      {"layers.0.post_attention_layernorm.weight", {16}},
                                                      {"layers.0.post_attention_layernorm.bias", {16}},
                                                      {"layers.0.mlp.up_proj.weight", {20, 16}},
                                                      {"layers.0.mlp.down_proj.weight", {16, 20}},
                                                      {"norm.weight", {16}},
                                                      {"norm.bias", {16}},
                                                      {"lm_head.weight", {31, 16}}};
  CHECK(files_of(*model) == expected);
  CHECK(records_of(*model).at("model.norm.weight").init.kind == layout::Init::zeros().kind);
}

}  // namespace nemotron_test
