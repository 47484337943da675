// OLMoE on ranks that share layers, positions, blocks, parameters or experts.
#include "support/family_ranks.h"

namespace olmoe_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"olmoe\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\nnum_kv_heads = 2\n"
    "seq_length = 24\ninit_std = 0.2\n"
    "ff_dim = 10\nnum_experts = 4\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("olmoe: OLMoE on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, mixture_ways());
}

TEST_CASE("olmoe: OLMoE's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, mixture_ways());
  packs_the_same(model);
}

}  // namespace olmoe_ranks_test
