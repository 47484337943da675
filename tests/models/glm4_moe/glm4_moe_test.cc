// The plugin as the host loads it. What it computes is compared with transformers in tests/system/parity.
#include <capstan_catch.h>

#include "support/model.h"

namespace glm4_moe_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

}  // namespace

TEST_CASE("glm4_moe: presets have the published models' parameters, without their prediction layers") {
  // GLM-4.5: 151552 x 5120 twice and a norm; 92 x (attention 5120 x (2 x 96 + 2 x 8) x 128 with biases 112 x 128, two
  // norms and those of heads); 3 x 3 x 5120 x 12288; 89 x (161 experts of 3 x 5120 x 1536, a router with corrections).
  const std::int64_t attention = 5120LL * 208 * 128 + 112LL * 128 + 2LL * 5120 + 2LL * 128;
  const std::int64_t large = 2LL * 151552 * 5120 + 5120 + 92 * attention + 3LL * 3 * 5120 * 12288 +
                             89 * (161LL * 3 * 5120 * 1536 + 160LL * 5121);
  const std::int64_t small_attention = 4096LL * 208 * 128 + 112LL * 128 + 2LL * 4096;
  const std::int64_t small = 2LL * 151552 * 4096 + 4096 + 46 * small_attention + 3LL * 4096 * 10944 +
                             45 * (129LL * 3 * 4096 * 1408 + 128LL * 4097);
  const std::map<std::string, std::int64_t> published{{"glm-4.5", large}, {"glm-4.6", large}, {"glm-4.5-air", small}};
  CHECK(parameters_of_presets("glm4_moe") == published);
}

TEST_CASE("glm4_moe: blocks with experts have a shared one and a correction that is no parameter") {
  const ModelOptions options{{"num_layers", integer(2)},  {"hidden_size", integer(16)},
                             {"num_heads", integer(4)},   {"num_kv_heads", integer(2)},
                             {"ff_dim", integer(20)},     {"vocab_size", integer(31)},
                             {"expert_dim", integer(6)},  {"shared_experts", integer(2)},
                             {"num_experts", integer(2)}, {"prediction_layers", integer(1)}};
  const auto model = make_model("glm4_moe", options);
  const auto records = records_of(*model);
  const std::string mlp = "model.layers.1.mlp.";
  CHECK(records.at("model.layers.0.mlp.gate_proj.weight").shape == layout::Shape{20, 16});
  CHECK(records.at(mlp + "shared_experts.up_proj.weight").shape == layout::Shape{12, 16});
  const auto& correction = records.at(mlp + "gate.e_score_correction_bias");
  CHECK(correction.shape == layout::Shape{2});
  CHECK_FALSE(correction.trainable);
  CHECK_FALSE(correction.decay);
  CHECK(correction.usage == layout::Usage::buffer);
  CHECK(model->file_map().kept == std::vector<std::string>{"model.layers.2."});
}

TEST_CASE("glm4_moe: numbers that do not fit are refused by name") {
  using Faults = std::vector<std::string>;
  const auto faults = [](const ModelOptions& options) { return model_faults("glm4_moe", options); };
  CHECK(faults({{"num_layers", integer(2)}}).empty());
  CHECK(faults({{"dense_blocks", integer(2)}}) ==
        Faults{"a.toml:10: model.dense_blocks 2 leaves none of the 2 blocks any experts\n    fix: use at most 1"});
  CHECK(
      faults({{"expert_groups", integer(8)}}) ==
      Faults{"a.toml:10: model.num_experts 8 cannot stand in model.expert_groups 8\n    fix: groups have equal sizes, "
             "of two experts at least"});
  CHECK(faults({{"groups_per_token", integer(2)}}) ==
        Faults{"a.toml:10: model.groups_per_token 2 is more than model.expert_groups 1\n    fix: use at most 1"});
  CHECK(faults({{"experts_per_token", integer(5)}, {"expert_groups", integer(2)}}) ==
        Faults{"a.toml:10: model.experts_per_token 5 is more than the 4 experts that a token may choose from\n    fix: "
               "use at most 4"});
  CHECK(faults({{"partial_rotary_factor", 0.1}}).size() == 1);
  CHECK(faults({{"rope_type", std::string("yarn")}}).size() == 1);
}

}  // namespace glm4_moe_test
