#include <capstan/testing.h>
#include <capstan_catch.h>

namespace equality_test {

using namespace capstan;

TEST_CASE("fsdp on four ranks learns what one rank does") {
  const auto alone = testing::train({});
  const auto fsdp = testing::train({.world = 4, .config = "[strategy.fsdp]\nmode = \"full_shard\"\n"});
  CHECK(testing::differences(fsdp, alone, 1e-10) == "");
}

}  // namespace equality_test
