#include <capstan_catch.h>

#include "support/model.h"

namespace ernie4_5_moe_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("ernie4_5_moe: presets have the published model's parameters") {
  CHECK(parameters_of_presets("ernie4_5_moe") ==
        std::map<std::string, std::int64_t>{{"ernie4.5-21b-a3b", 21825437888}});
}

namespace {

std::set<int> with_experts(const ModelOptions& more) {
  auto options = tiny_with(more);
  options.front().second = std::int64_t{6};
  const auto files = files_of(*make_model("ernie4_5_moe", options));
  std::set<int> blocks;
  for (int i = 0; i < 6; ++i)
    if (files.contains("layers." + std::to_string(i) + ".mlp.gate.weight")) blocks.insert(i);
  return blocks;
}

}  // namespace

TEST_CASE("ernie4_5_moe: blocks have experts from the first that may to the last, each so many") {
  CHECK(with_experts({}) == std::set<int>{1, 2, 3, 4, 5});
  CHECK(with_experts({{"first_expert_block", std::int64_t{2}}, {"last_expert_block", std::int64_t{4}}}) ==
        std::set<int>{2, 3, 4});
  CHECK(with_experts({{"expert_interval", std::int64_t{2}}}) == std::set<int>{1, 3, 5});
}

TEST_CASE(
    "ernie4_5_moe: a router's correction is a matrix of one row in files, and no layer computes every token without "
    "shared experts") {
  const ModelOptions more{{"first_expert_block", std::int64_t{0}}, {"shared_experts", std::int64_t{0}}};
  const auto files = files_of(*make_model("ernie4_5_moe", tiny_with(more)));
  CHECK(files.at("layers.0.mlp.moe_statics.e_score_correction_bias") == layout::Shape{1, 8});
  for (const auto& [name, shape] : files) CHECK(name.find("shared_experts") == std::string::npos);
  CHECK(model_faults("ernie4_5_moe", tiny_with({{"experts_per_token", std::int64_t{9}}})).size() == 1);
}

}  // namespace ernie4_5_moe_test
