// dots.llm1, one of whose blocks has a window, on ranks that share layers, positions, blocks, experts or parameters.
#include "support/family_ranks.h"

namespace dots1_ranks_test {

using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"dots1\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "num_kv_heads = 2\nseq_length = 24\ninit_std = 0.2\nff_dim = 22\n"
    "head_dim = 6\nsliding_window = 7\nmax_window_layers = 1\nnum_experts = 4\nexperts_per_token = 2\nexpert_dim = "
    "10\nshared_experts = "
    "2\nweights_scale = 1.5\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("dots1: dots.llm1 on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model, mixture_ways());
}

TEST_CASE("dots1: dots.llm1's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + lora, mixture_ways());
  packs_the_same(model);
}

}  // namespace dots1_ranks_test
