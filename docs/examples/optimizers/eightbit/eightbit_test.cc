#include <capstan/testing.h>
#include <capstan_catch.h>

#include <string>

using namespace capstan;

namespace {

testing::Setting setting(int world, const std::string& tables) {
  return {.world = world,
          .config = "[optimizer]\nplugin = \"eightbit\"\nlr = 1e-3\nsmallest = 1\n" + tables,
          .types = {testing::linked(*capstan_plugin())}};
}

}  // namespace

TEST_CASE("it learns nearly what AdamW learns, with moments in 8 bits") {
  const auto alone = testing::train(setting(1, "")), adamw = testing::train({.config = "[optimizer]\nlr = 1e-3\n"});
  CHECK(alone.losses.back() < alone.losses.front());
  CHECK(alone.losses.back() == Approx(adamw.losses.back()).epsilon(0.02));
  CHECK(testing::differences(alone, adamw, 1e-6) != "");
}

TEST_CASE("a run resumes with the same bits, and on other ranks with blocks of theirs") {
  const auto mine = setting(2, "[strategy.fsdp]\n");
  const auto whole = testing::train(mine);
  CHECK(testing::differences(testing::train_resumed(mine, 7, mine), whole, 0) == "");
  const auto other = testing::train_resumed(mine, 7, setting(3, "[strategy.fsdp]\n"));
  CHECK(other.losses.back() == Approx(whole.losses.back()).epsilon(0.01));
}
