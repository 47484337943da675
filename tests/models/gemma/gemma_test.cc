#include <capstan_catch.h>

#include "support/model.h"

namespace gemma_test {

using namespace capstan;
using namespace capstan::testing;

TEST_CASE("gemma: presets have the published models' parameters") {
  CHECK(parameters_of_presets("gemma") ==
        std::map<std::string, std::int64_t>{{"gemma-2b", 2506172416}, {"gemma-7b", 8537680896}});
}

TEST_CASE("gemma: norms begin as a product with one, 1 + 0, and the head is the embedding") {
  const auto model = make_model("gemma", tiny_with({}));
  CHECK(records_of(*model).at("model.layers.0.input_layernorm.weight").init.kind == layout::Init::Kind::zeros);
  CHECK(files_of(*model).count("lm_head.weight") == 0);
}

TEST_CASE("gemma: another activation is refused") {
  CHECK_THAT(model_faults("gemma", tiny_with({{"hidden_act", std::string("gelu")}})).front(),
             Contains("model.hidden_act is \"gelu\", but must be one of \"gelu_pytorch_tanh\""));
}

}  // namespace gemma_test
