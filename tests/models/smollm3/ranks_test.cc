// SmolLM 3, some of whose blocks have no rotary positions, on ranks that share layers, positions, blocks or parameters.
#include "support/layouts.h"

namespace smollm3_ranks_test {

using namespace capstan::testing;

namespace {

// Two blocks: one turns its heads, with YaRN's factor, one does not and has a window.
const std::string model = configuration(
    "smollm3",
    "hidden_size = 16\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 22\nno_rope_layer_interval = 2\nrope_theta = 500.0\n"
    "use_sliding_window = true\nsliding_window = 5\nrope_type = \"yarn\"\nrope_factor = 4.0\nrope_original_length = "
    "8\n",
    "");

}  // namespace

// Sums in float64 in another order, which AdamW amplifies: what the project promises.
TEST_CASE("smollm3: SmolLM 3 on ranks learns what it learns on one rank", "[matrix]") {
  check_splits(model, decoder_splits(), 1e-10);
}

TEST_CASE("smollm3: SmolLM 3's adapters on ranks learn what they learn on one rank", "[matrix]") {
  check_splits(model + all_adapters, adapter_splits(), 1e-10);
}

}  // namespace smollm3_ranks_test
