// Gemma 3 on ranks that share layers, positions, blocks or parameters: what one rank learns alone. The model has no
// line for any of it.
#include "support/family_ranks.h"

namespace gemma3_ranks_test {

using namespace capstan;

namespace {

const std::string model =
    "[model]\nplugin = \"gemma3\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 3\nnum_heads = 4\n"
    "num_kv_heads = 2\nhead_dim = 6\nff_dim = 22\nseq_length = 24\ninit_std = 0.2\nsliding_window = 5\n"
    "query_pre_attn_scalar = 9\nglobal_every = 2\nrope_theta = 500.0\nlocal_rope_theta = 40.0\n";
const std::string sequence = "sequence_parallel = true\n", fsdp = "[strategy.fsdp]\nmode = \"full_shard\"\n";
const std::string recompute = "[strategy.recompute]\n", packing = "[data]\npacking = true\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

std::string of(const std::string& strategy) { return "[strategy." + strategy + "]\nsize = 2\n"; }

}  // namespace

TEST_CASE("gemma3: Gemma 3 on ranks learns what it learns on one rank", "[matrix]") {
  testing::learns_the_same(model, {{2, of("tensor_parallel")},
                                   {2, of("tensor_parallel") + sequence},
                                   {2, fsdp},
                                   {2, fsdp + recompute},
                                   {2, of("pipeline_parallel")},
                                   {2, of("context_parallel")},
                                   {1, packing},
                                   {4, of("tensor_parallel") + sequence + of("pipeline_parallel") + packing},
                                   {4, of("context_parallel") + fsdp + packing}});
}

TEST_CASE("gemma3: Gemma 3's adapters on ranks learn what they learn on one rank", "[matrix]") {
  testing::learns_the_same(model + lora,
                           {{2, of("tensor_parallel") + sequence}, {2, fsdp}, {2, of("pipeline_parallel")}});
}

}  // namespace gemma3_ranks_test
