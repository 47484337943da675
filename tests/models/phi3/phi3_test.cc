#include <capstan_catch.h>
#include "nn/model_summary.h"

#include "support/model.h"

namespace phi3_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

using Faults = std::vector<std::string>;

/// A head of 8 numbers, 6 of which turn; longrope to four times its length.
const ModelOptions scaled{{"head_dim", integer(8)},
                          {"partial_rotary_factor", 0.75},
                          {"rope_type", std::string("longrope")},
                          {"rope_factor", 4.0},
                          {"rope_original_length", integer(16)},
                          {"rope_short_factors", std::vector<double>{1, 1.5, 2}},
                          {"rope_long_factors", std::vector<double>{1, 4, 16}}};

ModelOptions with(ModelOptions options, const std::string& key, const config::Value& value) {
  for (auto& option : options) {
    if (option.first == key) {
      option.second = value;
      return options;
    }
  }
  options.emplace_back(key, value);
  return options;
}

}  // namespace

TEST_CASE("phi3: presets have the published models' parameters") {
  const std::map<std::string, std::int64_t> published{
      {"phi3-mini-4k", 3821079552}, {"phi3-medium-4k", 13960238080}, {"phi4", 14659507200}, {"phi4-mini", 3836021760}};
  CHECK(parameters_of_presets("phi3") == published);
}

TEST_CASE("phi3: q, k and v are rows of one tensor in files, and gate and up of another") {
  const auto model = make_model("phi3", {{"num_layers", integer(1)},
                                         {"hidden_size", integer(12)},
                                         {"num_heads", integer(4)},
                                         {"num_kv_heads", integer(2)},
                                         {"head_dim", integer(6)},
                                         {"ff_dim", integer(20)},
                                         {"vocab_size", integer(31)}});
  const auto tensors = model->file_map().tensors;
  const auto& key = tensors.at("model.layers.0.self_attn.k_proj.weight");
  CHECK(key.name == "layers.0.self_attn.qkv_proj.weight");
  REQUIRE(key.part);
  CHECK(key.part->dim == 0);
  CHECK(key.part->offset == 24);
  CHECK(key.part->whole == 48);
  CHECK(tensors.at("model.layers.0.self_attn.v_proj.weight").part->offset == 36);
  CHECK(tensors.at("model.layers.0.mlp.up_proj.weight").part->offset == 20);
  const std::map<std::string, layout::Shape> expected{{"embed_tokens.weight", {31, 12}},
                                                      {"layers.0.input_layernorm.weight", {12}},
                                                      {"layers.0.self_attn.qkv_proj.weight", {48, 12}},
                                                      {"layers.0.self_attn.o_proj.weight", {12, 24}},
                                                      {"layers.0.post_attention_layernorm.weight", {12}},
                                                      {"layers.0.mlp.gate_up_proj.weight", {40, 12}},
                                                      {"layers.0.mlp.down_proj.weight", {12, 20}},
                                                      {"norm.weight", {12}},
                                                      {"lm_head.weight", {31, 12}}};
  CHECK(files_of(*model) == expected);
}

TEST_CASE("phi3: longrope's lists fit the part that turns, and no sequence is longer than they were made for") {
  CHECK(model_faults("phi3", with(scaled, "seq_length", integer(64))).empty());
  CHECK(model_faults("phi3", with(scaled, "seq_length", integer(65))) ==
        Faults{"a.toml:17: model.seq_length 65 is more than rope_factor x rope_original_length, 64\n"
               "    fix: use a shorter one, or a larger rope_factor with factors that were made for it"});
  const auto short_enough = with(scaled, "seq_length", integer(64));
  CHECK(model_faults("phi3", with(short_enough, "rope_long_factors", std::vector<double>{1, 2})) ==
        Faults{"a.toml:16: model.rope_long_factors has 2 numbers, but 3 frequencies turn a head\n"
               "    fix: give one for each of them"});
  Diagnostics faults;
  CHECK(make_model("phi3", with(short_enough, "rope_long_factors", std::vector<double>{}), faults)->facts().num_heads ==
        4);  // asked for before faults are told
  CHECK(model_faults("phi3", with(short_enough, "partial_rotary_factor", 0.7)) ==
        Faults{"a.toml:11: model.partial_rotary_factor 0.7 turns 5 of a head's 8 numbers\n"
               "    fix: numbers turn in pairs: use a factor that makes an even number of them",
               "a.toml:15: model.rope_short_factors has 3 numbers, but 2 frequencies turn a head\n"
               "    fix: give one for each of them",
               "a.toml:16: model.rope_long_factors has 3 numbers, but 2 frequencies turn a head\n"
               "    fix: give one for each of them"});
  CHECK(model_faults("phi3", {{"rope_type", std::string("yarn")}}) ==
        Faults{"a.toml:10: model.rope_type is \"yarn\", but must be one of \"default\", \"longrope\""});
}

TEST_CASE(
    "phi3: a written config.json says the length that longrope was made for, in the three keys that transformers 4 "
    "takes") {
  const auto map = make_model("phi3", with(scaled, "seq_length", integer(16)))->file_map();
  CHECK(map.more.at("max_position_embeddings") == "64");
  CHECK(std::find(map.left_out.begin(), map.left_out.end(), "rope_factor") != map.left_out.end());
  CHECK(std::find(map.left_out.begin(), map.left_out.end(), "rope_attention_factor") != map.left_out.end());
  CHECK(std::find(map.left_out.begin(), map.left_out.end(), "rope_long_factors") == map.left_out.end());
}

}  // namespace phi3_test
