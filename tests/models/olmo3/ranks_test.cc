// OLMo 3, with a window and other positions in some blocks, on ranks that share layers, positions, blocks or
// parameters.
#include "support/layouts.h"

namespace olmo3_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model = configuration(
    "olmo3",
    "hidden_size = 16\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 22\nsliding_window = 5\nrope_theta = 500.0\n"
    "layer_types = [\"sliding_attention\", \"full_attention\"]\nrope_type = \"yarn\"\nrope_factor = 4.0\n"
    "rope_original_length = 8\n",
    "");

}  // namespace

// Sums in float64 in another order, which AdamW amplifies: what the project promises.
TEST_CASE("olmo3: OLMo 3 on ranks learns what it learns on one rank", "[matrix]") {
  check_splits(model, decoder_splits(), 1e-10);
}

TEST_CASE("olmo3: OLMo 3's adapters on ranks learn what they learn on one rank", "[matrix]") {
  check_splits(model + all_adapters, adapter_splits(), 1e-10);
}

}  // namespace olmo3_ranks_test
