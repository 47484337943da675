#include <capstan_catch.h>
#include "nn/model_summary.h"

#include "support/model.h"

namespace olmo3_test {

using namespace capstan;
using capstan::testing::make_model;
using capstan::testing::model_faults;
using capstan::testing::model_host;
using Faults = std::vector<std::string>;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

}  // namespace

TEST_CASE("olmo3: presets have the published models' parameters") {
  const std::map<std::string, std::int64_t> published{{"olmo3-7b", 7298011136}, {"olmo3-32b", 32233522176}};
  CHECK(model_host().load("model", "olmo3").presets.size() == published.size());
  for (const auto& [preset, parameters] : published) {
    INFO(preset);
    CHECK(nn::summarise(make_model("olmo3", {}, preset)->build()).parameters == parameters);
  }
}

TEST_CASE("olmo3: three blocks of four have the window, or those that layer_types says") {
  const auto flops = [](testing::ModelOptions options) {
    options.insert(options.end(),
                   {{"seq_length", integer(100)}, {"num_layers", integer(5)}, {"hidden_size", integer(16)}});
    return make_model("olmo3", options)->flops_per_token(100);
  };
  const auto all = flops({{"sliding_window", integer(100)}});
  // 12 x 16 features x (50 - (10 - 10 x 10 / 200)) positions fewer in each such block.
  const auto saved = 12.0 * 16 * (50 - 9.5);
  CHECK(flops({{"sliding_window", integer(10)}}) == all - 4 * saved);
  CHECK(flops({{"sliding_window", integer(10)}, {"layer_types", Faults(5, "full_attention")}}) == all);
}

TEST_CASE("olmo3: another base than OLMo 3's is written for both kinds of blocks") {
  const testing::ModelOptions options{{"sliding_window", integer(9)},
                                      {"rope_theta", 500.0},
                                      {"rope_type", std::string("yarn")},
                                      {"rope_factor", 4.0},
                                      {"rope_original_length", integer(8)}};
  const auto more = make_model("olmo3", options)->file_map().more;
  CHECK(more.at("rope_parameters.full_attention") ==
        R"({"rope_theta": 500, "rope_type": "yarn", "factor": 4, "original_max_position_embeddings": 8})");
  CHECK(more.at("rope_parameters.sliding_attention") == R"({"rope_theta": 500, "rope_type": "default"})");
  CHECK_FALSE(make_model("olmo3", {{"sliding_window", integer(9)}})->file_map().more.contains("rope_parameters"));
}

TEST_CASE("olmo3: what does not fit is refused with its line and what to do") {
  CHECK_THAT(model_faults("olmo3", {}).front(),
             Contains("model.sliding_window is not set, but blocks are limited to it\n    fix: set it, such as 4096"));
  CHECK(model_faults("olmo3", {{"sliding_window", integer(9)}, {"layer_types", Faults{"full_attention"}}}) ==
        Faults{"a.toml:11: model.layer_types has 1 entries, but model.num_layers is 2\n"
               "    fix: give one for each block, or remove it"});
  CHECK(model_faults("olmo3", {{"layer_types", Faults(2, "full_attention")}}).empty());
}

}  // namespace olmo3_test
