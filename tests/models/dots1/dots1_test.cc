#include <capstan_catch.h>

#include "support/model.h"

namespace dots1_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("dots1: presets have the published model's parameters") {
  CHECK(parameters_of_presets("dots1") == std::map<std::string, std::int64_t>{{"dots.llm1", 142774381696}});
}

namespace {

// One block or more; transformers has no default for the experts of a token.
ModelOptions options_of(std::int64_t blocks, const ModelOptions& more) {
  auto options = tiny_with(more);
  options.front().second = blocks;
  options.insert(options.end(), {{"experts_per_token", std::int64_t{2}}, {"dense_blocks", std::int64_t{0}}});
  return options;
}

std::vector<bool> windows(const ModelOptions& more) {
  std::vector<bool> out;
  const auto options = options_of(3, more);
  const auto units = make_model("dots1", options)->build();
  for (std::size_t i = 1; i + 1 < units.size(); ++i)
    for (const auto* attention : units[i]->all<nn::Attention>()) out.push_back(attention->spec().window.has_value());
  return out;
}

}  // namespace

TEST_CASE("dots1: a window is in the blocks from max_window_layers on, or where the list says") {
  const std::pair<std::string, config::Value> window{"sliding_window", std::int64_t{10}};
  const std::vector<std::string> types{"sliding_attention", "full_attention", "sliding_attention"};
  CHECK(windows({window}) == std::vector<bool>{false, false, false});
  CHECK(windows({window, {"max_window_layers", std::int64_t{1}}}) == std::vector<bool>{false, true, true});
  CHECK(windows({window, {"layer_types", types}}) == std::vector<bool>{true, false, true});
  CHECK_THAT(
      model_faults("dots1", options_of(1, {{"layer_types", std::vector<std::string>{"sliding_attention"}}})).front(),
      Contains("sliding_window is not set"));
}

TEST_CASE("dots1: experts of a token are asked for") {
  auto options = options_of(1, {});
  CHECK(model_faults("dots1", options).empty());
  options.erase(options.end() - 2);
  CHECK_THAT(model_faults("dots1", options).front(), Contains("experts_per_token is not set"));
}

TEST_CASE("dots1: no window is written as none, which transformers would take for one of 4096") {
  CHECK(make_model("dots1", options_of(1, {}))->file_map().more.at("sliding_window") == "null");
}

}  // namespace dots1_test
