#include <capstan_catch.h>

#include "support/model.h"

namespace qwen2_moe_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("qwen2_moe: presets have the published models' parameters") {
  // A block: q and o, k and v, biases, norms, 64 experts and their router, the layer beside them and its gate.
  const std::int64_t block = 2 * 3584LL * 3584 + 2 * 3584LL * 512 + 3584 + 2LL * 512 + 2LL * 3584 +
                             64LL * 3 * 3584 * 2560 + 64LL * 3584 + 3LL * 3584 * 20480 + 3584;
  CHECK(parameters_of_presets("qwen2_moe") ==
        std::map<std::string, std::int64_t>{{"qwen1.5-moe-a2.7b", 14315784192},
                                            {"qwen2-57b-a14b", 28 * block + 2LL * 151936 * 3584 + 3584}});
}

TEST_CASE("qwen2_moe: a gated layer stands beside the experts, and some blocks have a plain one") {
  ModelOptions options = tiny_with({{"shared_dim", std::int64_t{12}}, {"dense_layers", std::vector<std::int64_t>{1}}});
  options.front().second = std::int64_t{2};
  const auto records = records_of(*make_model("qwen2_moe", options));
  CHECK(records.at("model.layers.0.mlp.shared_expert.up_proj.weight").shape == layout::Shape{12, 16});
  CHECK(records.at("model.layers.0.mlp.shared_expert_gate.weight").shape == layout::Shape{1, 16});
  CHECK(records.at("model.layers.1.mlp.up_proj.weight").shape == layout::Shape{20, 16});
  CHECK(records.contains("model.layers.0.self_attn.q_proj.bias"));
  CHECK_FALSE(records.contains("model.layers.0.self_attn.o_proj.bias"));
}

TEST_CASE("qwen2_moe: a model without experts is refused with the plugin that has it") {
  CHECK_THAT(model_faults("qwen2_moe", tiny_with({{"sparse_step", std::int64_t{2}}})).front(),
             Contains("leave no block any experts") && Contains("plugin = \"llama\""));
}

}  // namespace qwen2_moe_test
