#include <capstan_catch.h>
#include "nn/model_summary.h"

#include "support/model.h"

namespace smollm3_test {

using namespace capstan;
using capstan::testing::make_model;
using capstan::testing::model_faults;
using capstan::testing::model_host;
using Faults = std::vector<std::string>;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

}  // namespace

TEST_CASE("smollm3: presets have the published models' parameters") {
  const std::map<std::string, std::int64_t> published{{"smollm3-3b", 3075098624}};
  CHECK(model_host().load("model", "smollm3").presets.size() == published.size());
  for (const auto& [preset, parameters] : published) {
    INFO(preset);
    CHECK(nn::summarise(make_model("smollm3", {}, preset)->build()).parameters == parameters);
  }
}

TEST_CASE("smollm3: some blocks have no rotary positions, by a list or every so many") {
  const auto turned = [](const testing::ModelOptions& options) {
    std::vector<bool> out;
    const auto units = make_model("smollm3", options)->build();
    for (std::size_t i = 1; i + 1 < units.size(); ++i) {
      for (const auto* attention : units[i]->all<nn::Attention>()) {
        nn::Batch batch;
        const auto heads = attention->heads();
        const auto call = attention->heads_call(at::zeros({1, 1, (heads.queries + 2 * heads.keys) * heads.dim}), batch);
        out.push_back(call.rotary != nullptr);
      }
    }
    return out;
  };
  CHECK(turned({{"num_layers", integer(5)}}) == std::vector<bool>{true, true, true, false, true});
  CHECK(turned({{"num_layers", integer(3)}, {"no_rope_layer_interval", integer(2)}}) ==
        std::vector<bool>{true, false, true});
  CHECK(turned({{"num_layers", integer(2)}, {"no_rope_layers", std::vector<std::int64_t>{0, 1, 1}}}) ==
        std::vector<bool>{false, true});
}

TEST_CASE(
    "smollm3: a window is in blocks without rotary positions, or where layer_types says, and only if it is in use") {
  const auto flops = [](testing::ModelOptions options) {
    options.insert(options.end(),
                   {{"seq_length", integer(100)}, {"num_layers", integer(4)}, {"hidden_size", integer(16)}});
    return make_model("smollm3", options)->flops_per_token(100);
  };
  const auto all = flops({});
  CHECK(flops({{"sliding_window", integer(10)}}) == all);
  // 12 x 16 features x (50 - (10 - 10 x 10 / 200)) positions fewer in each such block.
  const auto saved = 12.0 * 16 * (50 - 9.5);
  const testing::ModelOptions used{{"sliding_window", integer(10)}, {"use_sliding_window", true}};
  CHECK(flops(used) == all - saved);
  auto listed = used;
  listed.emplace_back("layer_types",
                      Faults{"sliding_attention", "full_attention", "sliding_attention", "full_attention"});
  CHECK(flops(listed) == all - 2 * saved);
}

TEST_CASE("smollm3: what does not fit is refused with its line and what to do") {
  CHECK(model_faults("smollm3", {{"num_layers", integer(3)}, {"no_rope_layers", std::vector<std::int64_t>{1, 0}}}) ==
        Faults{"a.toml:11: model.no_rope_layers has 2 entries, but model.num_layers is 3\n"
               "    fix: give one for each block, or remove it"});
  CHECK(model_faults("smollm3", {{"no_rope_layer_interval", integer(0)}}).size() == 1);
  const Faults rotary(2, "full_attention");
  CHECK(model_faults("smollm3", {{"use_sliding_window", true}, {"layer_types", rotary}}).empty());
  CHECK_THAT(model_faults("smollm3", {{"use_sliding_window", true}, {"num_layers", integer(4)}}).front(),
             Contains("sliding_window is not set"));
  CHECK(model_faults("smollm3", {{"layer_types", Faults{"sliding_attention", "full_attention"}}}).size() == 1);
}

}  // namespace smollm3_test
