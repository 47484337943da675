#include "hf/layer_config.h"

#include <capstan_catch.h>

namespace layer_config_test {

using namespace capstan;

namespace {

// Blocks 1 and 3 are global.
Json settled(const std::string& blocks, bool keys_are_values = true) {
  auto json =
      Json::parse(R"({"head_dim": 14, "layer_types": ["sliding_attention", "full_attention", "sliding_attention",
                                              "full_attention"], "per_layer_config": )" +
                  blocks + R"(, "attention_k_eq_v": )" + (keys_are_values ? "true}" : "false}"));
  hf::settle_layers(json);
  return json;
}

}  // namespace

TEST_CASE("what all global blocks have of their own becomes the keys that published files have") {
  const auto both = settled(R"({"1": {"head_dim": 20, "num_key_value_heads": 1},
                                "3": {"head_dim": 20, "num_key_value_heads": 1}})");
  CHECK(both["global_head_dim"] == Json(20));
  CHECK(both["num_global_key_value_heads"] == Json(1));
  CHECK_FALSE(both.contains("per_layer_config"));
  const auto heads = settled(R"({"1": {"head_dim": 20}, "3": {"head_dim": 20}})", false);
  CHECK(heads["global_head_dim"] == Json(20));
  CHECK_FALSE(heads.contains("num_global_key_value_heads"));
  const auto keys = settled(R"({"1": {"num_key_value_heads": 1}, "3": {"num_key_value_heads": 1}})");
  CHECK(keys["global_head_dim"] == Json(14));
}

TEST_CASE("what differs otherwise stays, to be refused") {
  CHECK(settled(R"({"1": {"head_dim": 20}})").contains("per_layer_config"));
  CHECK(settled(R"({"1": {"head_dim": 20}, "3": {"head_dim": 22}})").contains("per_layer_config"));
  CHECK(
      settled(R"({"0": {"head_dim": 20}, "1": {"head_dim": 20}, "3": {"head_dim": 20}})").contains("per_layer_config"));
  CHECK(settled(R"({"1": {"sliding_window": 2}, "3": {"sliding_window": 2}})").contains("per_layer_config"));
  CHECK(settled(R"({"1": {"num_key_value_heads": 1}, "3": {"num_key_value_heads": 1}})", false)
            .contains("per_layer_config"));
}

}  // namespace layer_config_test
