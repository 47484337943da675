#include <capstan/testing.h>
#include <capstan_catch.h>

namespace gpt_ranks_test {

using namespace capstan;

TEST_CASE("gpt: GPT learns the same sharded over three ranks as on one") {
  const std::string gpt =
      "[model]\nplugin = \"gpt\"\nvocab_size = 261\nhidden_size = 12\nnum_layers = 2\nnum_heads = 3\nff_dim = 22\n"
      "seq_length = 24\ndropout = 0.1\n";
  const auto alone = testing::train({.config = gpt});
  CHECK(alone.losses.back() < 0.8 * alone.losses.front());
  const auto sharded = testing::train({.world = 3, .config = gpt + "[strategy.fsdp]\nmode = \"full_shard\"\n"});
  CHECK(testing::differences(sharded, alone, 1e-10) == "");
}

}  // namespace gpt_ranks_test
