#include "plugins/tokenizers/hf/text_pattern.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

namespace text_pattern_test {

using namespace hf;
using Pieces = std::vector<std::string_view>;

TEST_CASE("behaviors: what becomes of the matches that a text is cut at") {
  const auto cut = [](Behavior behavior, bool invert) {
    const std::string_view text = "-a--b-";
    return pieces_at(text, TextPattern(Regex("-")).matches(text), behavior, invert);
  };
  CHECK(cut(Behavior::isolated, false) == Pieces{"-", "a", "-", "-", "b", "-"});
  CHECK(cut(Behavior::removed, false) == Pieces{"a", "b"});
  CHECK(cut(Behavior::merged_with_previous, false) == Pieces{"-", "a-", "-", "b-"});
  CHECK(cut(Behavior::merged_with_next, false) == Pieces{"-a", "-", "-b", "-"});
  CHECK(cut(Behavior::contiguous, false) == Pieces{"-", "a", "--", "b", "-"});
  CHECK(cut(Behavior::removed, true) == Pieces{"-", "-", "-", "-"});
  CHECK(cut(Behavior::merged_with_previous, true) == Pieces{"-a", "-", "-b", "-"});
  CHECK(pieces_at("", TextPattern("x").matches(""), Behavior::isolated, false).empty());
}

TEST_CASE("a text that replacing would make too long is refused") {
  const std::string text(20000, 'a');
  CHECK_THROWS_WITH(TextPattern("a").replaced(text, std::string(10000, 'b')),
                    Contains("a text of 20000 bytes becomes more than 18777216 where matches are replaced"));
  CHECK(TextPattern("a").replaced(text, "bcd").size() == 60000);
}

}  // namespace text_pattern_test
