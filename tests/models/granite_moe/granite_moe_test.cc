#include <capstan_catch.h>

#include "support/model.h"

namespace granite_moe_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("granite_moe: presets have the published models' parameters") {
  CHECK(parameters_of_presets("granite_moe") ==
        std::map<std::string, std::int64_t>{{"granite3.0-1b-a400m", 1334628352},
                                            {"granite3.0-3b-a800m", 3298793472},
                                            {"granite3.1-1b-a400m", 1334628352},
                                            {"granite3.1-3b-a800m", 3298793472}});
}

TEST_CASE("granite_moe: files hold all experts of a block in two tensors, and gate and up of the shared layer in one") {
  std::map<std::string, layout::Shape> expected{{"embed_tokens.weight", {31, 16}},
                                                {"layers.0.input_layernorm.weight", {16}},
                                                {"layers.0.self_attn.q_proj.weight", {16, 16}},
                                                {"layers.0.self_attn.k_proj.weight", {8, 16}},
                                                {"layers.0.self_attn.v_proj.weight", {8, 16}},
                                                {"layers.0.self_attn.o_proj.weight", {16, 16}},
                                                {"layers.0.post_attention_layernorm.weight", {16}},
                                                {"layers.0.block_sparse_moe.router.layer.weight", {3, 16}},
                                                {"layers.0.block_sparse_moe.input_linear.weight", {3, 40, 16}},
                                                {"layers.0.block_sparse_moe.output_linear.weight", {3, 16, 20}},
                                                {"norm.weight", {16}},
                                                {"lm_head.weight", {31, 16}}};
  const ModelOptions three{{"num_experts", std::int64_t{3}}};
  CHECK(files_of(*make_model("granite_moe", tiny_with(three))) == expected);
  expected["layers.0.shared_mlp.input_linear.weight"] = {12, 16};
  expected["layers.0.shared_mlp.output_linear.weight"] = {16, 6};
  auto shared = three;
  shared.insert(shared.end(), {{"model_type", std::string("granitemoeshared")}, {"shared_dim", std::int64_t{6}}});
  CHECK(files_of(*make_model("granite_moe", tiny_with(shared))) == expected);
}

TEST_CASE("granite_moe: a granitemoe with a shared layer is refused") {
  CHECK(model_faults("granite_moe", tiny_with({{"shared_dim", std::int64_t{6}}})) ==
        std::vector<std::string>{"a.toml:16: model.shared_dim is set, but granitemoe has no such layer\n"
                                 "    fix: set model_type = \"granitemoeshared\", or remove it"});
}

}  // namespace granite_moe_test
