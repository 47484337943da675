#include <capstan_catch.h>

#include "support/model.h"

namespace olmoe_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("olmoe: presets have the published models' parameters") {
  CHECK(parameters_of_presets("olmoe") == std::map<std::string, std::int64_t>{{"olmoe-1b-7b", 6919161856}});
}

TEST_CASE("olmoe: norms of q and k are over all heads, and each block has experts") {
  const auto files = files_of(*make_model("olmoe", tiny_with({{"num_experts", std::int64_t{2}}})));
  CHECK(files.at("layers.0.self_attn.q_norm.weight") == layout::Shape{16});
  CHECK(files.at("layers.0.self_attn.k_norm.weight") == layout::Shape{8});
  CHECK(files.at("layers.0.mlp.gate.weight") == layout::Shape{2, 16});
  CHECK(files.at("layers.0.mlp.experts.1.down_proj.weight") == layout::Shape{16, 20});
}

TEST_CASE("olmoe: heads that the norms of q and k are not as wide as are refused") {
  CHECK(model_faults("olmoe", tiny_with({{"head_dim", std::int64_t{2}}})).size() == 1);
  CHECK(model_faults("olmoe", tiny_with({{"head_dim", std::int64_t{4}}})).empty());
}

TEST_CASE("olmoe: more experts a token than there are is refused") {
  CHECK(model_faults("olmoe", tiny_with({{"num_experts", std::int64_t{2}}, {"num_experts_per_tok", std::int64_t{3}}}))
            .size() == 1);
}

}  // namespace olmoe_test
