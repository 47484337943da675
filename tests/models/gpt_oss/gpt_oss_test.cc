// What it computes is compared with transformers in tests/system/parity.
#include <capstan_catch.h>
#include "nn/model_summary.h"

#include "support/model.h"

namespace gpt_oss_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

ModelOptions tiny() {
  return {{"num_layers", integer(3)},   {"hidden_size", integer(12)}, {"num_heads", integer(4)},
          {"num_kv_heads", integer(2)}, {"head_dim", integer(6)},     {"ff_dim", integer(10)},
          {"num_experts", integer(4)},  {"vocab_size", integer(31)}};
}

}  // namespace

TEST_CASE("presets have the published models' parameters") {
  const std::map<std::string, std::int64_t> published{{"gpt-oss-20b", 20914757184}, {"gpt-oss-120b", 116829156672}};
  CHECK(model_host().load("model", "gpt_oss").presets.size() == published.size());
  for (const auto& [preset, parameters] : published) {
    INFO(preset);
    CHECK(nn::summarise(make_model("gpt_oss", {}, preset)->build()).parameters == parameters);
  }
}

TEST_CASE("experts are a tensor a record in files, with each gate beside its up, and biases alike") {
  auto options = tiny();
  options.emplace_back("num_layers", integer(1));
  options.erase(options.begin());
  const auto model = make_model("gpt_oss", options);
  const std::string experts = "layers.0.mlp.experts.";
  const std::map<std::string, layout::Shape> expected{{"embed_tokens.weight", {31, 12}},
                                                      {"layers.0.input_layernorm.weight", {12}},
                                                      {"layers.0.self_attn.q_proj.weight", {24, 12}},
                                                      {"layers.0.self_attn.q_proj.bias", {24}},
                                                      {"layers.0.self_attn.k_proj.weight", {12, 12}},
                                                      {"layers.0.self_attn.k_proj.bias", {12}},
                                                      {"layers.0.self_attn.v_proj.weight", {12, 12}},
                                                      {"layers.0.self_attn.v_proj.bias", {12}},
                                                      {"layers.0.self_attn.o_proj.weight", {12, 24}},
                                                      {"layers.0.self_attn.o_proj.bias", {12}},
                                                      {"layers.0.self_attn.sinks", {4}},
                                                      {"layers.0.post_attention_layernorm.weight", {12}},
                                                      {"layers.0.mlp.router.weight", {4, 12}},
                                                      {"layers.0.mlp.router.bias", {4}},
                                                      {experts + "gate_up_proj", {4, 12, 20}},
                                                      {experts + "gate_up_proj_bias", {4, 20}},
                                                      {experts + "down_proj", {4, 10, 12}},
                                                      {experts + "down_proj_bias", {4, 12}},
                                                      {"norm.weight", {12}},
                                                      {"lm_head.weight", {31, 12}}};
  CHECK(files_of(*model) == expected);
}

TEST_CASE("blocks have a window by turns, or as layer_types says") {
  const auto windows = [](const ModelOptions& options) {
    std::string text;
    for (const auto& unit : make_model("gpt_oss", options)->build()) {
      unit->each<nn::Attention>([&](const nn::Attention& layer) { text += layer.spec().window ? "w" : "-"; });
    }
    return text;
  };
  auto options = tiny();
  CHECK(windows(options) == "w-w");
  options.emplace_back("layer_types",
                       std::vector<std::string>{"full_attention", "full_attention", "sliding_attention"});
  CHECK(windows(options) == "--w");
}

TEST_CASE("what does not fit is refused by name") {
  using Faults = std::vector<std::string>;
  const auto faults = [](const ModelOptions& options) { return model_faults("gpt_oss", options); };
  CHECK(faults({{"num_experts", integer(2)}, {"experts_per_token", integer(3)}}) ==
        Faults{"a.toml:11: model.experts_per_token 3 is more than model.num_experts 2\n    fix: use at most 2"});
  CHECK(faults({{"layer_types", std::vector<std::string>{"full_attention"}}}) ==
        Faults{"a.toml:10: model.layer_types has 1 entries, but model.num_layers is 2\n    fix: give one for each "
               "block, or remove it"});
  CHECK(faults({{"layer_types", std::vector<std::string>{"full_attention", "linear_attention"}}}) ==
        Faults{"a.toml:10: model.layer_types has \"linear_attention\"\n    fix: use \"full_attention\" and "
               "\"sliding_attention\"; there are no others"});
}

}  // namespace gpt_oss_test
