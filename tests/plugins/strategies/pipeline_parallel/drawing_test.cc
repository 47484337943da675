#include "plugins/strategies/pipeline_parallel/drawing.h"

#include <capstan/base/files.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include "plugins/strategies/pipeline_parallel/schedules.h"

namespace drawing_test {

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

TEST_CASE("the document's drawings are the program's") {
  const auto document = capstan::read_file(CAPSTAN_SOURCE_DIR "/docs/parallelism.md");
  for (const auto& table : {one_forward_one_backward(2, 1, 4), one_forward_one_backward(2, 2, 4), zero_bubble(2, 1, 4),
                            dual_pipe_v(2, 4)}) {
    for (const auto& line : drawn(table, 4)) {
      INFO(line);
      CHECK(document.find("\n" + line + "\n") != std::string::npos);
    }
  }
}

TEST_CASE("what does not fit is left out") {
  const auto lines = drawn(one_forward_one_backward(20, 1, 40), 40);
  REQUIRE(lines.size() == 17);
  CHECK(lines.back() == "…");
  CHECK(lines[0].substr(lines[0].size() - std::string("…").size()) == "…");
  CHECK(lines[0].size() <= 120 + std::string("…").size());
}

}  // namespace drawing_test
