// Seed-OSS, with biases of q, k and v, on ranks that share layers, positions, blocks or parameters.
#include "support/family_ranks.h"

namespace seed_oss_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"seed_oss\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nnum_kv_heads = "
    "2\n"
    "seq_length = 24\ninit_std = 0.2\n"
    "head_dim = 6\nff_dim = 22\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("seed_oss: Seed-OSS on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, family_ways());
  learns_the_same(model + "dropout = 0.1\n", {{2, tensor_parallel(2, true)}});
}

TEST_CASE("seed_oss: Seed-OSS's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, adapter_ways());
  packs_the_same(model);
}

}  // namespace seed_oss_ranks_test
