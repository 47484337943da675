// Granite 3, with multipliers, on ranks that share layers, positions, blocks or parameters.
#include "support/layouts.h"

namespace granite_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model = configuration(
    "granite",
    "hidden_size = 16\nnum_heads = 4\nnum_kv_heads = 2\nff_dim = 22\nembedding_multiplier = 3.0\n"
    "residual_multiplier = 0.22\nattention_multiplier = 0.2\nlogits_scaling = 3.0\ntie_word_embeddings = true\n",
    "");

}  // namespace

// Sums in float64 in another order, which AdamW amplifies: what the project promises.
TEST_CASE("granite: Granite 3 on ranks learns what it learns on one rank", "[matrix]") {
  check_splits(model, decoder_splits(), 1e-10);
}

TEST_CASE("granite: Granite 3's adapters on ranks learn what they learn on one rank", "[matrix]") {
  check_splits(model + all_adapters, adapter_splits(), 1e-10);
}

}  // namespace granite_ranks_test
