#include <capstan_catch.h>

#include "support/model.h"

namespace phi_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("phi: presets have the published models' parameters") {
  CHECK(parameters_of_presets("phi") ==
        std::map<std::string, std::int64_t>{{"phi-1", 1418270720}, {"phi-1.5", 1418270720}, {"phi-2", 2779683840}});
}

TEST_CASE("phi: the head has a bias, without the prefix of all else") {
  const auto files = files_of(*make_model("phi", tiny_with({{"partial_rotary_factor", 0.5}})));
  CHECK(files.contains("lm_head.bias"));
  CHECK(files.contains("layers.0.self_attn.dense.bias"));
  CHECK_FALSE(files.contains("layers.0.post_attention_layernorm.weight"));
}

}  // namespace phi_test
