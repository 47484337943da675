#include <capstan_catch.h>

#include "support/model.h"

namespace cohere_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("cohere: presets have the published models' parameters") {
  CHECK(parameters_of_presets("cohere") == std::map<std::string, std::int64_t>{{"command-r-v01", 34980831232},
                                                                               {"command-r-08-2024", 32296476672},
                                                                               {"aya-expanse-8b", 8028033024},
                                                                               {"command-r7b", 8028033024},
                                                                               {"command-a", 111057580032}});
}

TEST_CASE("cohere: a block has one norm, without a bias") {
  const std::map<std::string, layout::Shape> expected{{"embed_tokens.weight", {31, 16}},
                                                      {"layers.0.input_layernorm.weight", {16}},
                                                      {"layers.0.self_attn.q_proj.weight", {16, 16}},
                                                      {"layers.0.self_attn.k_proj.weight", {8, 16}},
                                                      {"layers.0.self_attn.v_proj.weight", {8, 16}},
                                                      {"layers.0.self_attn.o_proj.weight", {16, 16}},
                                                      {"layers.0.mlp.gate_proj.weight", {20, 16}},
                                                      {"layers.0.mlp.up_proj.weight", {20, 16}},
                                                      {"layers.0.mlp.down_proj.weight", {16, 20}},
                                                      {"norm.weight", {16}}};
  CHECK(files_of(*make_model("cohere", tiny_with({{"model_type", std::string("cohere")}}))) == expected);
}

TEST_CASE("cohere: files of Cohere 2 say which blocks have the window") {
  auto options = tiny_with({{"sliding_window", std::int64_t{10}}, {"sliding_window_pattern", std::int64_t{2}}});
  options.front().second = std::int64_t{2};
  const auto map = make_model("cohere", options)->file_map();
  CHECK(map.architecture == "Cohere2ForCausalLM");
  CHECK(map.more.at("layer_types") == R"(["sliding_attention", "full_attention"])");
  const auto first = tiny_with({{"model_type", std::string("cohere")}});
  CHECK(make_model("cohere", first)->file_map().more.count("layer_types") == 0);
}

TEST_CASE("cohere: a Cohere 1 with a window is refused") {
  CHECK_THAT(
      model_faults("cohere", tiny_with({{"model_type", std::string("cohere")}, {"sliding_window", std::int64_t{10}}}))
          .front(),
      Contains("cohere has no windows"));
  CHECK(model_faults("cohere", tiny_with({{"model_type", std::string("cohere")}})).empty());
}

TEST_CASE("cohere: a Cohere 2 without a window is refused") {
  CHECK_THAT(model_faults("cohere", tiny_with({})).front(), Contains("sliding_window is not set"));
  // Unless no block would have it.
  CHECK(model_faults("cohere", tiny_with({{"sliding_window_pattern", std::int64_t{1}}})).empty());
}

}  // namespace cohere_test
