// The plugin as the host loads it. What it computes is compared with transformers in tests/system/parity.
#include <capstan_catch.h>
#include "nn/model_summary.h"

#include "support/model.h"

namespace mixtral_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

}  // namespace

TEST_CASE("mixtral: Mixtral 8x7B: sizes, summary and floating-point operations") {
  const auto model = make_model("mixtral", {}, "mixtral-8x7b");
  const auto facts = model->facts();
  CHECK(facts.vocab_size == 32000);
  CHECK(facts.max_positions == 32768);
  CHECK(facts.hidden_size == 4096);
  CHECK(facts.num_layers == 32);
  CHECK(facts.num_heads == 32);
  CHECK(nn::summarise(model->build()).text() ==
        "46,702,792,704 parameters = embedding 131,072,000 + 32 blocks x 1,451,270,144 + head 131,076,096");
  // A token's matrices: 32 (attention 41,943,040 + 2 experts of 3 x 4096 x 14336 + router 8 x 4096) + 32000 x 4096.
  CHECK(model->flops_per_token(4096) == 6.0 * 12748587008 + 3221225472.0);
}

TEST_CASE(
    "mixtral: experts are stacked records that take a file's tensor for each expert, and ranks along ep may differ") {
  const auto model = make_model("mixtral", {{"num_layers", integer(1)},
                                            {"hidden_size", integer(12)},
                                            {"num_heads", integer(2)},
                                            {"num_kv_heads", integer(1)},
                                            {"ff_dim", integer(20)},
                                            {"num_experts", integer(2)},
                                            {"vocab_size", integer(31)}});
  const auto records = records_of(*model);
  const std::string moe = "model.layers.0.block_sparse_moe.";
  const auto& gate_up = records.at(moe + "experts.gate_up_proj");
  const auto& down = records.at(moe + "experts.down_proj");
  CHECK(gate_up.shape == layout::Shape{2, 2, 20, 12});
  CHECK(down.shape == layout::Shape{2, 12, 20});
  const auto along_ep = [](const layout::Param& record) {
    return std::count(record.data_axes.begin(), record.data_axes.end(), layout::Axis::ep);
  };
  CHECK(along_ep(gate_up) == 0);
  CHECK(along_ep(down) == 0);
  CHECK(along_ep(records.at(moe + "gate.weight")) == 1);
  const auto map = model->file_map();
  CHECK(map.tensors.at(gate_up.name).stack ==
        std::vector<std::string>{
            "layers.0.block_sparse_moe.experts.0.w1.weight", "layers.0.block_sparse_moe.experts.0.w3.weight",
            "layers.0.block_sparse_moe.experts.1.w1.weight", "layers.0.block_sparse_moe.experts.1.w3.weight"});
  const std::map<std::string, layout::Shape> expected{{"embed_tokens.weight", {31, 12}},
                                                      {"layers.0.input_layernorm.weight", {12}},
                                                      {"layers.0.self_attn.q_proj.weight", {12, 12}},
                                                      {"layers.0.self_attn.k_proj.weight", {6, 12}},
                                                      {"layers.0.self_attn.v_proj.weight", {6, 12}},
                                                      {"layers.0.self_attn.o_proj.weight", {12, 12}},
                                                      {"layers.0.post_attention_layernorm.weight", {12}},
                                                      {"layers.0.block_sparse_moe.gate.weight", {2, 12}},
                                                      {"layers.0.block_sparse_moe.experts.0.w1.weight", {20, 12}},
                                                      {"layers.0.block_sparse_moe.experts.0.w3.weight", {20, 12}},
                                                      {"layers.0.block_sparse_moe.experts.0.w2.weight", {12, 20}},
                                                      {"layers.0.block_sparse_moe.experts.1.w1.weight", {20, 12}},
                                                      {"layers.0.block_sparse_moe.experts.1.w3.weight", {20, 12}},
                                                      {"layers.0.block_sparse_moe.experts.1.w2.weight", {12, 20}},
                                                      {"norm.weight", {12}},
                                                      {"lm_head.weight", {31, 12}}};
  CHECK(files_of(*model) == expected);
  const auto units = model->build();
  CHECK(units[1]->all<nn::Experts>().size() == 1);
  CHECK(units[1]->all<nn::Linear>().size() == 3);  // qkv, the output product, the router
}

TEST_CASE("mixtral: what the architecture does not cover is refused by name") {
  using Faults = std::vector<std::string>;
  const auto faults = [](const ModelOptions& options) { return model_faults("mixtral", options); };
  CHECK(faults({{"num_experts", integer(2)}, {"experts_per_token", integer(3)}}) ==
        Faults{"a.toml:11: model.experts_per_token 3 is more than model.num_experts 2\n    fix: use at most 2"});
  CHECK(faults({{"router_jitter_noise", 0.1}}) == Faults{"a.toml:10: model.router_jitter_noise is 0.1, but must be 0"});
  CHECK(faults({{"sliding_window", integer(1024)}}).empty());
  CHECK(faults({{"hidden_size", integer(10)}, {"num_heads", integer(4)}, {"num_kv_heads", integer(3)}}) ==
        Faults{"a.toml:10: model.hidden_size 10 is not divisible by model.num_heads 4\n"
               "    fix: use hidden_size 12, another number of heads, or set head_dim",
               "a.toml:12: model.num_heads 4 is not divisible by model.num_kv_heads 3\n"
               "    fix: each key head serves the same number of query heads"});
  CHECK(faults({{"head_dim", integer(512)}}).empty());
  CHECK(faults({{"head_dim", integer(514)}}).size() == 1);
  CHECK(faults({{"head_dim", integer(5)}}) ==
        Faults{
            "a.toml:10: attention heads of 5 numbers are not supported\n    fix: use an even head_dim of at most 512"});
  CHECK(faults({{"rope_scaling.type", std::string("linear")}}) ==
        Faults{"a.toml:10: model.rope_scaling.type is \"linear\", but must be one of \"default\""});
}

}  // namespace mixtral_test
