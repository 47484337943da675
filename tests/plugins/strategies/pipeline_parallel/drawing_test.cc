#include "plugins/strategies/pipeline_parallel/drawing.h"

#include <capstan_catch.h>

#include "plugins/strategies/pipeline_parallel/schedules.h"

using namespace pipeline_parallel;

namespace {

std::vector<std::string> drawn(const Table& table, int micros) {
  return drawing_of(table, judge(table, micros).timeline);
}

}  // namespace

TEST_CASE("a drawing shows when what begins, takes longer and is waited for") {
  CHECK(drawn(one_forward_one_backward(2, 1, 2), 2) ==
        std::vector<std::string>{"position 0  F0 F1 .  .  B0 -  .  B1 -", "position 1  .  F0 B0 -  F1 B1 -  .  ."});
}

TEST_CASE("with several stages a position, cells have the stage") {
  const auto lines = drawn(one_forward_one_backward(2, 2, 2), 2);
  REQUIRE(lines.size() == 2);
  CHECK(lines[0].rfind("position 0  0F0 0F1 2F0 2F1 ", 0) == 0);
}

TEST_CASE("what does not fit is left out") {
  const auto lines = drawn(one_forward_one_backward(20, 1, 40), 40);
  REQUIRE(lines.size() == 17);
  CHECK(lines.back() == "…");
  CHECK(lines[0].substr(lines[0].size() - std::string("…").size()) == "…");
  CHECK(lines[0].size() <= 110 + std::string("…").size());
}
