#include <capstan_catch.h>

#include "support/model.h"

namespace seed_oss_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("seed_oss: presets have the published models' parameters") {
  CHECK(parameters_of_presets("seed_oss") == std::map<std::string, std::int64_t>{{"seed-oss-36b", 36151104512}});
}

TEST_CASE(
    "seed_oss: q, k and v have biases, the output product and the feed-forward layer only if they are asked for") {
  const auto biases = [](const ModelOptions& more) {
    std::set<std::string> names;
    for (const auto& [name, shape] : files_of(*make_model("seed_oss", tiny_with(more))))
      if (name.ends_with(".bias")) names.insert(name.substr(std::string("layers.0.").size()));
    return names;
  };
  const std::set<std::string> usual{"self_attn.q_proj.bias", "self_attn.k_proj.bias", "self_attn.v_proj.bias"};
  CHECK(biases({}) == usual);
  auto all = usual;
  all.insert({"self_attn.o_proj.bias", "mlp.gate_proj.bias", "mlp.up_proj.bias", "mlp.down_proj.bias"});
  CHECK(biases({{"attention_out_bias", true}, {"mlp_bias", true}}) == all);
  CHECK(biases({{"attention_bias", false}}).empty());
}

}  // namespace seed_oss_test
