#include <capstan_catch.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "nn/model_summary.h"
#include "support/model.h"

namespace gemma4_test {

using namespace capstan;
using capstan::testing::files_of;
using capstan::testing::make_model;
using capstan::testing::model_faults;
using capstan::testing::model_host;
using capstan::testing::ModelOptions;
using capstan::testing::records_of;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

// Local blocks but for the second and the last; the last two use the second's and the third's keys and values.
ModelOptions tiny(ModelOptions more = {}) {
  const std::vector<std::string> types{"sliding_attention", "full_attention", "sliding_attention", "sliding_attention",
                                       "sliding_attention"};
  ModelOptions options{
      {"num_layers", integer(5)},         {"hidden_size", integer(16)},    {"num_heads", integer(4)},
      {"num_kv_heads", integer(2)},       {"head_dim", integer(6)},        {"ff_dim", integer(20)},
      {"vocab_size", integer(31)},        {"seq_length", integer(24)},     {"sliding_window", integer(5)},
      {"global_head_dim", integer(10)},   {"global_kv_heads", integer(1)}, {"keys_are_values", true},
      {"sharing_layers", integer(2)},     {"double_wide_mlp", true},       {"inputs_width", integer(3)},
      {"inputs_vocab_size", integer(40)}, {"local_rope_theta", 1e4},       {"layer_types", types}};
  const auto sets = [&](const std::string& key) {
    return std::any_of(more.begin(), more.end(), [&](const auto& own) { return own.first == key; });
  };
  std::erase_if(options, [&](const auto& option) { return sets(option.first); });
  if (!sets("turned_part")) options.emplace_back("turned_part", 0.5);
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

ModelOptions experts() {
  return {{"routed_experts", true},
          {"num_experts", integer(4)},
          {"experts_per_token", integer(2)},
          {"expert_dim", integer(9)}};
}

}  // namespace

TEST_CASE("gemma4: presets have the published text models' parameters") {
  // Those of transformers' Gemma4ForCausalLM, with a factor for each block's output.
  const std::map<std::string, std::int64_t> published{{"gemma4-e2b-text", 4628569344 + 35},
                                                      {"gemma4-e4b-text", 7463013376 + 42},
                                                      {"gemma4-26b-a4b-text", 25233141760 + 30},
                                                      {"gemma4-31b-text", 30697345280 + 60}};
  CHECK(model_host().load("model", "gemma4").presets.size() == published.size());
  for (const auto& [preset, parameters] : published) {
    INFO(preset);
    CHECK(nn::summarise(make_model("gemma4", {}, preset)->build()).parameters == parameters);
  }
}

TEST_CASE("gemma4: experts stand beside the feed-forward layer, with a tensor a matrix of all of them in files") {
  const auto files = files_of(*make_model("gemma4", tiny(experts())));
  using layout::Shape;
  const std::string block = "layers.0.", sharing = "layers.4.";
  CHECK(files.at(block + "mlp.up_proj.weight") == Shape{20, 16});
  CHECK(files.at(sharing + "mlp.up_proj.weight") == Shape{40, 16});
  for (const auto& at : {block, sharing}) {
    CHECK(files.at(at + "router.proj.weight") == Shape{4, 16});
    CHECK(files.at(at + "router.scale") == Shape{16});
    CHECK(files.at(at + "router.per_expert_scale") == Shape{4});
    CHECK(files.at(at + "experts.gate_up_proj") == Shape{4, 18, 16});
    CHECK(files.at(at + "experts.down_proj") == Shape{4, 16, 9});
    for (const char* norm : {"post_feedforward_layernorm_1", "pre_feedforward_layernorm_2",
                             "post_feedforward_layernorm_2", "post_feedforward_layernorm"})
      CHECK(files.at(at + norm + ".weight") == Shape{16});
  }
}

TEST_CASE("gemma4: blocks have the heads of their kind, and those that share keys have none of their own") {
  const auto files = files_of(*make_model("gemma4", tiny()));
  using layout::Shape;
  CHECK(files.at("layers.0.self_attn.q_proj.weight") == Shape{24, 16});
  CHECK(files.at("layers.0.self_attn.v_proj.weight") == Shape{12, 16});
  CHECK(files.at("layers.0.mlp.up_proj.weight") == Shape{20, 16});
  CHECK(files.at("layers.1.self_attn.q_proj.weight") == Shape{40, 16});
  CHECK(files.at("layers.1.self_attn.k_proj.weight") == Shape{10, 16});
  CHECK(files.at("layers.1.self_attn.k_norm.weight") == Shape{10});
  CHECK_FALSE(files.contains("layers.1.self_attn.v_proj.weight"));
  for (const std::string block : {"layers.3.", "layers.4."}) {  // the last one is global, whatever layer_types says
    CHECK(files.at(block + "self_attn.q_proj.weight") == Shape{block == "layers.3." ? 24 : 40, 16});
    CHECK(files.at(block + "mlp.up_proj.weight") == Shape{40, 16});
    CHECK_FALSE(files.contains(block + "self_attn.k_proj.weight"));
    CHECK_FALSE(files.contains(block + "self_attn.k_norm.weight"));
  }
  CHECK(files.at("embed_tokens_per_layer.weight") == Shape{40, 15});
  CHECK(files.at("per_layer_model_projection.weight") == Shape{15, 16});
  CHECK(files.at("layers.2.per_layer_input_gate.weight") == Shape{3, 16});
}

TEST_CASE("gemma4: the factor of a block's output is stored, and never trained") {
  const auto records = records_of(*make_model("gemma4", tiny()));
  CHECK_FALSE(records.at("model.layers.4.layer_scalar").trainable);
  CHECK(records.at("model.layers.4.layer_scalar").shape == layout::Shape{1});
}

TEST_CASE("gemma4: blocks that give or read keys have no region of their attention: what would run again leaves them") {
  const auto units = make_model("gemma4", tiny())->build();
  std::vector<bool> has;
  for (std::size_t i = 1; i + 1 < units.size(); ++i) {
    const auto regions = units[i]->all<nn::Region>();
    has.push_back(std::any_of(regions.begin(), regions.end(), [](const auto* r) { return r->name() == "attention"; }));
  }
  CHECK(has == std::vector<bool>{true, false, false, false, false});
}

TEST_CASE("gemma4: what a Gemma 4 cannot be is refused") {
  const auto fault_of = [](const ModelOptions& more) {
    const auto faults = model_faults("gemma4", tiny(more));
    REQUIRE(faults.size() == 1);
    return faults.front();
  };
  CHECK_THAT(fault_of({{"sharing_layers", integer(5)}}), Contains("do not stand before these"));
  CHECK_THAT(fault_of({{"sharing_layers", integer(4)}}), Contains("do not stand before these"));
  CHECK_THAT(fault_of({{"turned_part", 0.1}}), Contains("global attention heads of 10 numbers, with 0"));
  CHECK_THAT(fault_of({{"global_head_dim", integer(514)}}), Contains("at most 512"));
  CHECK_THAT(fault_of({{"global_kv_heads", integer(3)}}), Contains("not divisible by model.global_kv_heads 3"));
  CHECK_THAT(fault_of({{"inputs_vocab_size", integer(30)}}), Contains("below model.vocab_size 31"));
  CHECK_THAT(fault_of({{"routed_experts", true}, {"num_experts", integer(4)}}),
             Contains("not all of num_experts, experts_per_token and expert_dim"));
  auto few = experts();
  few[1].second = integer(1);
  CHECK_THAT(fault_of(few), Contains("model.experts_per_token 2 is more than model.num_experts 1"));
}

}  // namespace gemma4_test
