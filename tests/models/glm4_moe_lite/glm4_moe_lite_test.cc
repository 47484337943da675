#include <capstan_catch.h>

#include "support/model.h"

namespace glm4_moe_lite_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

using Types = std::vector<std::string>;

ModelOptions options_of(const Types& types) {
  auto options = tiny_with({{"num_kv_heads", std::int64_t{4}}});
  options.front().second = std::int64_t{2};
  options.erase(options.begin() + 3);
  if (!types.empty()) options.emplace_back("mlp_layer_types", types);
  return options;
}

}  // namespace

TEST_CASE("glm4_moe_lite: presets have the published model's parameters, without its prediction layer") {
  const std::int64_t attention =
      2048LL * 768 + 768 + 768LL * 20 * 256 + 2048LL * 576 + 512 + 512LL * 20 * 448 + 20LL * 256 * 2048 + 2LL * 2048;
  const std::int64_t experts = 65LL * 3 * 2048 * 1536 + 64LL * 2049;
  CHECK(parameters_of_presets("glm4_moe_lite") ==
        std::map<std::string, std::int64_t>{
            {"glm-4.7-flash", 47 * attention + 46 * experts + 3LL * 2048 * 10240 + 2LL * 154880 * 2048 + 2048}});
}

TEST_CASE("glm4_moe_lite: a list says which blocks have experts, or the number of the first without") {
  const auto model = make_model("glm4_moe_lite", options_of({"sparse", "dense"}));
  const auto records = records_of(*model);
  CHECK(records.contains("model.layers.0.mlp.gate.weight"));
  CHECK(records.contains("model.layers.1.mlp.gate_proj.weight"));
  CHECK(model->file_map().more.at("mlp_layer_types") == R"(["sparse", "dense"])");
  CHECK(make_model("glm4_moe_lite", options_of({}))->file_map().more.at("mlp_layer_types") == R"(["dense", "sparse"])");
}

TEST_CASE("glm4_moe_lite: a list that does not fit is refused with its line and what to do") {
  CHECK_THAT(model_faults("glm4_moe_lite", options_of({"sparse"})).front(), Contains("has 1 entries"));
  CHECK_THAT(model_faults("glm4_moe_lite", options_of({"sparse", "local"})).front(), Contains("has \"local\""));
}

}  // namespace glm4_moe_lite_test
