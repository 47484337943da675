// GLM 4, which turns half of each head in pairs, on ranks that share layers, positions, blocks or parameters.
#include "support/layouts.h"

namespace glm4_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model = configuration(
    "glm4", "hidden_size = 16\nnum_heads = 4\nnum_kv_heads = 2\nhead_dim = 12\nff_dim = 22\nrope_theta = 500.0\n", "");
const std::string adapters = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

// Sums in float64 in another order, which AdamW amplifies: what the project promises.
TEST_CASE("glm4: GLM 4 on ranks learns what it learns on one rank", "[matrix]") {
  check_splits(model, decoder_splits(), 1e-10);
  // A key head that two ranks share, and no norms after the layers.
  check_splits(configuration("glm4",
                             "model_type = \"glm\"\nhidden_size = 16\nnum_heads = 4\nnum_kv_heads = 1\nhead_dim = 8\n"
                             "ff_dim = 22\nattention_bias = false\n",
                             ""),
               {{2, "[strategy.tensor_parallel]\nsize = 2\nsequence_parallel = true\n"}}, 1e-10);
}

TEST_CASE("glm4: GLM 4's adapters on ranks learn what they learn on one rank", "[matrix]") {
  const std::string tensor = "[strategy.tensor_parallel]\nsize = 2\n";
  check_splits(model + adapters,
               {{2, tensor},
                {4, tensor + "sequence_parallel = true\n[strategy.fsdp]\n"},
                {2, "[strategy.pipeline_parallel]\nsize = 2\n"},
                {2, "[strategy.context_parallel]\nsize = 2\n"}},
               1e-10);
}

}  // namespace glm4_ranks_test
