#include <capstan_catch.h>

#include "support/model.h"

namespace qwen3_5_test {

using namespace capstan;
using capstan::testing::files_of;
using capstan::testing::make_model;
using capstan::testing::model_faults;
using capstan::testing::ModelOptions;
using capstan::testing::parameters_of_presets;
using capstan::testing::records_of;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

const ModelOptions tiny{{"num_layers", integer(2)},
                        {"hidden_size", integer(12)},
                        {"num_heads", integer(4)},
                        {"num_kv_heads", integer(2)},
                        {"head_dim", integer(8)},
                        {"ff_dim", integer(20)},
                        {"vocab_size", integer(31)},
                        {"full_attention_interval", integer(2)},
                        {"linear_num_key_heads", integer(2)},
                        {"linear_num_value_heads", integer(4)},
                        {"linear_key_head_dim", integer(3)},
                        {"linear_value_head_dim", integer(5)}};

ModelOptions with(ModelOptions options, const ModelOptions& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace

TEST_CASE("presets have the parameters that transformers counts") {
  CHECK(parameters_of_presets("qwen3_5") == std::map<std::string, std::int64_t>{{"qwen3.5-0.8b", 752393024},
                                                                                {"qwen3.5-4b", 4205751296},
                                                                                {"qwen3.5-9b", 8953803264},
                                                                                {"qwen3.5-27b", 26895998464},
                                                                                {"qwen3.5-35b-a3b", 34660610688},
                                                                                {"qwen3-next-80b-a3b", 79674391296}});
}

TEST_CASE("blocks are what the interval or the list says, with the files' names") {
  const auto files = files_of(*make_model("qwen3_5", tiny));
  const std::string block = "layers.0.linear_attn.";
  CHECK(files.at(block + "in_proj_qkv.weight") == layout::Shape{32, 12});
  CHECK(files.at(block + "conv1d.weight") == layout::Shape{32, 1, 4});
  CHECK(files.at(block + "in_proj_z.weight") == layout::Shape{20, 12});
  CHECK(files.at(block + "in_proj_b.weight") == layout::Shape{4, 12});
  CHECK(files.at(block + "in_proj_a.weight") == layout::Shape{4, 12});
  CHECK(files.at(block + "dt_bias") == layout::Shape{4});
  CHECK(files.at(block + "A_log") == layout::Shape{4});
  CHECK(files.at(block + "norm.weight") == layout::Shape{5});
  CHECK(files.at(block + "out_proj.weight") == layout::Shape{12, 20});
  CHECK(files.count("layers.0.self_attn.q_proj.weight") == 0);
  CHECK(files.at("layers.1.self_attn.q_proj.weight") == layout::Shape{64, 12});  // queries and gates
  CHECK(files.at("layers.1.self_attn.q_norm.weight") == layout::Shape{8});
  const auto listed = make_model(
      "qwen3_5", with(tiny, {{"layer_types", std::vector<std::string>{"full_attention", "linear_attention"}}}));
  CHECK(files_of(*listed).count("layers.0.self_attn.q_proj.weight") == 1);
  CHECK(listed->file_map().more.at("layer_types") == R"(["full_attention", "linear_attention"])");
  CHECK(listed->file_map().kept == std::vector<std::string>{"mtp."});
}

TEST_CASE("norms begin as a product with one: 1 + 0, and the gated one 1") {
  const auto records = records_of(*make_model("qwen3_5", tiny));
  const auto kind = [&](const std::string& name) { return records.at("model.layers." + name).init.kind; };
  CHECK(kind("0.input_layernorm.weight") == layout::Init::Kind::zeros);
  CHECK(kind("1.self_attn.q_norm.weight") == layout::Init::Kind::zeros);
  CHECK(kind("0.linear_attn.norm.weight") == layout::Init::Kind::ones);
  CHECK_FALSE(records.at("model.layers.0.linear_attn.A_log").decay);
  CHECK_FALSE(records.at("model.layers.0.linear_attn.dt_bias").decay);
}

TEST_CASE("a token's operations count the state's products and attention's gate") {
  // Products of the first block 12 x (32 + 20 + 4 + 4) + 12 x 20 and the convolution 32 x 4; of the second
  // 12 x 64 + 2 x 12 x 16 + 12 x 32; feed-forward 3 x 12 x 20 each; the head 31 x 12.
  const double weights = 12 * 60 + 12 * 20 + 32 * 4 + 12 * 64 + 2 * 12 * 16 + 12 * 32 + 2 * 3 * 12 * 20 + 31 * 12;
  const double state = 3 * 6.0 * 4 * 3 * 5, attention = 6.0 * 4 * 16 * 50;
  CHECK(make_model("qwen3_5", tiny)->flops_per_token(100) == 6 * weights + state + attention);
}

TEST_CASE("the mixture has routed experts and one that computes every token, each or all of them in a tensor") {
  const auto mixture = with(tiny, {{"model_type", std::string("qwen3_5_moe_text")},
                                   {"num_experts", integer(2)},
                                   {"expert_dim", integer(5)},
                                   {"shared_expert_dim", integer(7)}});
  const auto model = make_model("qwen3_5", mixture);
  const auto files = files_of(*model);
  CHECK(files.at("layers.1.mlp.experts.1.up_proj.weight") == layout::Shape{5, 12});
  CHECK(files.at("layers.1.mlp.shared_expert.up_proj.weight") == layout::Shape{7, 12});
  CHECK(files.at("layers.1.mlp.shared_expert_gate.weight") == layout::Shape{1, 12});
  CHECK(model->file_map().architecture == "Qwen3_5MoeForCausalLM");
  const auto together = files_of(*make_model("qwen3_5", with(mixture, {{"experts_together", true}})));
  CHECK(together.at("layers.1.mlp.experts.gate_up_proj") == layout::Shape{2, 10, 12});
  CHECK(together.at("layers.1.mlp.experts.down_proj") == layout::Shape{2, 12, 5});
  CHECK(together.count("layers.1.mlp.experts.1.up_proj.weight") == 0);
}

TEST_CASE("Qwen 3 Next has the same layers, with products whose features stand key head by key head") {
  const auto model = make_model("qwen3_5", with(tiny, {{"model_type", std::string("qwen3_next")},
                                                       {"num_experts", integer(2)},
                                                       {"expert_dim", integer(5)},
                                                       {"shared_expert_dim", integer(7)}}));
  const auto files = files_of(*model);
  const std::string block = "layers.0.linear_attn.";
  CHECK(files.at(block + "in_proj_qkvz.weight") == layout::Shape{52, 12});
  CHECK(files.at(block + "in_proj_ba.weight") == layout::Shape{8, 12});
  CHECK(files.at(block + "conv1d.weight") == layout::Shape{32, 1, 4});
  CHECK(files.count(block + "in_proj_qkv.weight") == 0);
  CHECK(files.at("layers.1.mlp.experts.1.up_proj.weight") == layout::Shape{5, 12});
  CHECK(files.at("layers.1.mlp.shared_expert_gate.weight") == layout::Shape{1, 12});
  CHECK(records_of(*model).at("model." + block + "in_proj_qkvz.weight").shape == layout::Shape{2, 26, 12});
  CHECK(model->file_map().architecture == "Qwen3NextForCausalLM");
}

TEST_CASE("what the architecture does not cover is refused by name") {
  using Faults = std::vector<std::string>;
  CHECK(model_faults("qwen3_5", {{"linear_num_key_heads", integer(3)}}) ==
        Faults{"default: model.delta_value_heads 4 is not divisible by model.delta_key_heads 3\n"
               "    fix: each key head serves the same number of value heads"});
  CHECK(model_faults("qwen3_5", {{"layer_types", std::vector<std::string>{"full_attention"}}}) ==
        Faults{"a.toml:10: model.layer_types has 1 entries, but model.num_layers is 2\n"
               "    fix: give one for each block, or remove it"});
  CHECK(model_faults("qwen3_5", {{"layer_types", std::vector<std::string>{"full_attention", "sliding_attention"}}}) ==
        Faults{"a.toml:10: model.layer_types has \"sliding_attention\"\n"
               "    fix: use \"full_attention\" and \"linear_attention\"; there are no others"});
  CHECK(model_faults("qwen3_5", {{"head_dim", integer(12)}}) ==
        Faults{"default: model.partial_rotary_factor 0.25 turns 3 of a head's 12 numbers\n"
               "    fix: numbers turn in pairs: use a factor that makes an even number of them"});
}

}  // namespace qwen3_5_test
