#include <capstan_catch.h>
#include "nn/model_summary.h"

#include "support/family_ranks.h"
#include "support/model.h"

namespace ministral_test {

using namespace capstan;
using namespace capstan::testing;

namespace {

const std::string model =
    "[model]\nplugin = \"ministral\"\nvocab_size = 261\nhidden_size = 16\nnum_layers = 2\nnum_heads = 4\n"
    "num_kv_heads = 2\nff_dim = 22\nseq_length = 24\nsliding_window = 4\ninit_std = 0.2\n";
const std::string two_kinds = "layer_types = [\"sliding_attention\", \"full_attention\"]\n";
const std::string lora = "[strategy.lora]\nrank = 3\ninit = \"random\"\ntargets = [\"all-linear\"]\n";

}  // namespace

TEST_CASE("ministral: every block has the window, or those that the list names") {
  const auto losses = [](const std::string& more) { return train({.config = model + more, .steps = 1}).losses; };
  const std::string sliding = "\"sliding_attention\"", full = "\"full_attention\"";
  CHECK(losses("") == losses("layer_types = [" + sliding + ", " + sliding + "]\n"));
  CHECK(losses("") != losses("layer_types = [" + sliding + ", " + full + "]\n"));
  CHECK(model_faults("ministral", {{"layer_types", std::vector<std::string>{"full_attention"}}}) ==
        std::vector<std::string>{"a.toml:10: model.layer_types has 1 entries, but model.num_layers is 2\n"
                                 "    fix: give one for each block, or remove it"});
}

TEST_CASE("ministral: Ministral on ranks learns what it learns on one rank", "[matrix]") {
  learns_the_same(model + two_kinds, {{4, tensor_parallel(2, true) + full_shard}, {2, two_stages}, {2, two_parts}});
}

TEST_CASE("ministral: Ministral's adapters on ranks, and packed rows", "[matrix]") {
  learns_the_same(model + two_kinds + lora, {{2, tensor_parallel(2, true)}, {2, full_shard}, {2, two_stages}});
  packs_the_same(model + two_kinds);
}

}  // namespace ministral_test
