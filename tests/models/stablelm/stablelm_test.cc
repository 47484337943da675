#include <capstan_catch.h>

#include "support/model.h"

namespace stablelm_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("stablelm: presets have the published models' parameters") {
  CHECK(parameters_of_presets("stablelm") ==
        std::map<std::string, std::int64_t>{{"stablelm-3b-4e1t", 2795443200}, {"stablelm2-1.6b", 1644515328}});
}

TEST_CASE("stablelm: layers side by side have one norm, and q, k and v biases where they are asked for") {
  const std::pair<std::string, config::Value> half{"partial_rotary_factor", 0.5};
  const auto names = [&](const ModelOptions& more) {
    std::set<std::string> out;
    auto options = more;
    options.push_back(half);
    for (const auto& [name, shape] : files_of(*make_model("stablelm", tiny_with(options)))) out.insert(name);
    return out;
  };
  auto expected = names({});
  CHECK(expected.contains("layers.0.post_attention_layernorm.bias"));
  for (const char* end : {"weight", "bias"}) expected.erase(std::string("layers.0.post_attention_layernorm.") + end);
  for (const char* name : {"q", "k", "v"}) expected.insert(std::string("layers.0.self_attn.") + name + "_proj.bias");
  CHECK(names({{"use_parallel_residual", true}, {"use_qkv_bias", true}}) == expected);
}

TEST_CASE("stablelm: heads that are not as wide as hidden_size together are refused") {
  CHECK_THAT(model_faults("stablelm", tiny_with({{"head_dim", std::int64_t{8}}})).front(), Contains("remove head_dim"));
}

}  // namespace stablelm_test
