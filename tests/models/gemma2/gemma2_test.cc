#include <capstan/nn/head.h>
#include <capstan_catch.h>
#include "nn/model_summary.h"

#include <map>

#include "support/model.h"

namespace gemma2_test {

using namespace capstan;
using capstan::testing::files_of;
using capstan::testing::make_model;
using capstan::testing::model_faults;
using capstan::testing::model_host;
using capstan::testing::ModelOptions;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

ModelOptions tiny(ModelOptions more = {}) {
  ModelOptions options{{"num_layers", integer(2)},   {"hidden_size", integer(16)}, {"num_heads", integer(4)},
                       {"num_kv_heads", integer(2)}, {"head_dim", integer(6)},     {"ff_dim", integer(20)},
                       {"vocab_size", integer(31)},  {"seq_length", integer(24)},  {"sliding_window", integer(5)},
                       {"attention_cap", 50.0},      {"logits_cap", 30.0}};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

std::vector<nn::AttentionSpec> attention_of(const nn::Model& model) {
  std::vector<nn::AttentionSpec> specs;
  for (const auto& unit : model.build()) unit->each<nn::Attention>([&](const auto& of) { specs.push_back(of.spec()); });
  return specs;
}

}  // namespace

TEST_CASE("gemma2: presets have the published models' parameters") {
  const std::map<std::string, std::int64_t> published{
      {"gemma2-2b", 2614341888}, {"gemma2-9b", 9241705984}, {"gemma2-27b", 27227128320}};
  CHECK(model_host().load("model", "gemma2").presets.size() == published.size());
  for (const auto& [preset, parameters] : published) {
    INFO(preset);
    CHECK(nn::summarise(make_model("gemma2", {}, preset)->build()).parameters == parameters);
  }
}

TEST_CASE("gemma2: norms stand before and after each layer, and the head is the table") {
  const std::map<std::string, layout::Shape> expected{{"embed_tokens.weight", {31, 16}},
                                                      {"layers.0.input_layernorm.weight", {16}},
                                                      {"layers.0.self_attn.q_proj.weight", {24, 16}},
                                                      {"layers.0.self_attn.k_proj.weight", {12, 16}},
                                                      {"layers.0.self_attn.v_proj.weight", {12, 16}},
                                                      {"layers.0.self_attn.o_proj.weight", {16, 24}},
                                                      {"layers.0.post_attention_layernorm.weight", {16}},
                                                      {"layers.0.pre_feedforward_layernorm.weight", {16}},
                                                      {"layers.0.mlp.gate_proj.weight", {20, 16}},
                                                      {"layers.0.mlp.up_proj.weight", {20, 16}},
                                                      {"layers.0.mlp.down_proj.weight", {16, 20}},
                                                      {"layers.0.post_feedforward_layernorm.weight", {16}},
                                                      {"norm.weight", {16}}};
  auto options = tiny();
  options.front().second = integer(1);
  CHECK(files_of(*make_model("gemma2", options)) == expected);
}

TEST_CASE("gemma2: local and global blocks take turns, or stand where layer_types says") {
  const auto model = make_model("gemma2", tiny({{"query_pre_attn_scalar", integer(25)}}));
  const auto specs = attention_of(*model);
  REQUIRE(specs.size() == 2);
  CHECK(specs[0].window == 5);
  CHECK_FALSE(specs[1].window);
  for (const auto& spec : specs) {
    CHECK(spec.soft_cap == 50.0);
    CHECK(spec.scale == 0.2);
  }
  CHECK(model->build().back()->all<nn::VocabularyHead>().front()->cap() == 30.0);
  const std::vector<std::string> types{"full_attention", "sliding_attention"};
  const auto turned = attention_of(*make_model("gemma2", tiny({{"layer_types", types}})));
  CHECK_FALSE(turned[0].window);
  CHECK(turned[1].window == 5);
}

TEST_CASE("gemma2: what a Gemma 2 cannot be is refused") {
  const auto fault_of = [](const ModelOptions& more) {
    const auto faults = model_faults("gemma2", tiny(more));
    REQUIRE(faults.size() == 1);
    return faults.front();
  };
  CHECK_THAT(fault_of({{"layer_types", std::vector<std::string>{"full_attention"}}}), Contains("has 1 entries"));
  CHECK_THAT(fault_of({{"layer_types", std::vector<std::string>{"full_attention", "chunked_attention"}}}),
             Contains("chunked_attention"));
  CHECK_THAT(fault_of({{"activation", std::string("silu")}}), Contains("gelu_pytorch_tanh"));
  CHECK_THAT(fault_of({{"rope_type", std::string("linear")}}), Contains("rope_factor"));
}

}  // namespace gemma2_test
