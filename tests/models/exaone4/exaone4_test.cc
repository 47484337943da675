#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "support/model.h"

namespace exaone4_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("exaone4: presets have the published models' parameters") {
  CHECK(parameters_of_presets("exaone4") ==
        std::map<std::string, std::int64_t>{{"exaone4-1.2b", 1279391488}, {"exaone4-32b", 32003216384}});
}

namespace {

std::vector<bool> turned(const ModelOptions& more) {
  std::vector<bool> out;
  auto options = tiny_with(more);
  options.front().second = std::int64_t{4};
  const auto units = make_model("exaone4", options)->build();
  for (std::size_t i = 1; i + 1 < units.size(); ++i) {
    for (const auto* attention : units[i]->all<nn::Attention>()) {
      const nn::Batch batch;
      const auto heads = attention->heads();
      const auto call = attention->heads_call(at::zeros({1, 1, (heads.queries + 2 * heads.keys) * heads.dim}), batch);
      out.push_back(call.rotary != nullptr);
    }
  }
  return out;
}

}  // namespace

TEST_CASE("exaone4: blocks without the window have no rotary positions, unless there is no window at all") {
  const std::pair<std::string, config::Value> window{"sliding_window", std::int64_t{10}};
  CHECK(turned({}) == std::vector<bool>{true, true, true, true});
  CHECK(turned({window}) == std::vector<bool>{true, true, true, false});
  const std::vector<std::string> types{"full_attention", "sliding_attention", "full_attention", "full_attention"};
  CHECK(turned({window, {"layer_types", types}}) == std::vector<bool>{false, true, false, false});
  // Longer than any sequence: it limits nothing, and the others have no positions all the same.
  CHECK(turned({{"sliding_window", std::int64_t{100000}}}) == std::vector<bool>{true, true, true, false});
}

TEST_CASE("exaone4: no window is written as none, which transformers would take for one of 4096") {
  CHECK(make_model("exaone4", tiny_with({}))->file_map().more.at("sliding_window") == "null");
  CHECK_FALSE(make_model("exaone4", tiny_with({{"sliding_window", std::int64_t{10}}}))
                  ->file_map()
                  .more.contains("sliding_window"));
}

TEST_CASE("exaone4: blocks with a window that is not set are refused") {
  CHECK_THAT(
      model_faults("exaone4", tiny_with({{"layer_types", std::vector<std::string>{"sliding_attention"}}})).front(),
      Contains("sliding_window is not set"));
}

}  // namespace exaone4_test
