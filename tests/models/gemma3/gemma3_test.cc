#include <capstan_catch.h>
#include "nn/model_summary.h"

#include <map>

#include "support/model.h"

namespace gemma3_test {

using namespace capstan;
using capstan::testing::files_of;
using capstan::testing::make_model;
using capstan::testing::model_faults;
using capstan::testing::model_host;
using capstan::testing::ModelOptions;

namespace {

std::int64_t integer(std::int64_t value) { return value; }

ModelOptions tiny(ModelOptions more = {}) {
  ModelOptions options{{"num_layers", integer(4)},   {"hidden_size", integer(16)}, {"num_heads", integer(4)},
                       {"num_kv_heads", integer(2)}, {"head_dim", integer(6)},     {"ff_dim", integer(20)},
                       {"vocab_size", integer(31)},  {"seq_length", integer(24)},  {"sliding_window", integer(5)},
                       {"global_every", integer(3)}};
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

}  // namespace

TEST_CASE("gemma3: presets have the published text models' parameters") {
  const std::map<std::string, std::int64_t> published{{"gemma3-270m", 268098176},
                                                      {"gemma3-1b", 999885952},
                                                      {"gemma3-4b-text", 3880263168},
                                                      {"gemma3-12b-text", 11766034176},
                                                      {"gemma3-27b-text", 27009346304}};
  CHECK(model_host().load("model", "gemma3").presets.size() == published.size());
  for (const auto& [preset, parameters] : published) {
    INFO(preset);
    CHECK(nn::summarise(make_model("gemma3", {}, preset)->build()).parameters == parameters);
  }
}

TEST_CASE("gemma3: q and k have norms by head, and every so many blocks one is global") {
  const auto model = make_model("gemma3", tiny());
  const auto files = files_of(*model);
  CHECK(files.at("layers.3.self_attn.q_norm.weight") == layout::Shape{6});
  CHECK(files.at("layers.3.self_attn.k_norm.weight") == layout::Shape{6});
  std::vector<std::int64_t> windows;
  for (const auto& unit : model->build())
    unit->each<nn::Attention>([&](const auto& of) { windows.push_back(of.spec().window.value_or(0)); });
  CHECK(windows == std::vector<std::int64_t>{5, 5, 0, 5});
}

TEST_CASE("gemma3: what a Gemma 3 cannot be is refused") {
  const auto fault_of = [](const ModelOptions& more) {
    const auto faults = model_faults("gemma3", tiny(more));
    REQUIRE(faults.size() == 1);
    return faults.front();
  };
  CHECK_THAT(fault_of({{"layer_types", std::vector<std::string>{"full_attention"}}}), Contains("has 1 entries"));
  CHECK_THAT(fault_of({{"rope_type", std::string("yarn")}}), Contains("linear"));
  CHECK_THAT(fault_of({{"model_type", std::string("gemma3")}}), Contains("gemma3_text"));
}

}  // namespace gemma3_test
