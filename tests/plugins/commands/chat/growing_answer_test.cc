#include "plugins/commands/chat/growing_answer.h"

#include <capstan_catch.h>

namespace growing_answer_test {

using chat::GrowingAnswer;
using chat::settled;

namespace {

constexpr auto npos = std::string_view::npos;

capstan::execution::AnswerEnd ends_at(const std::string& end) {
  return {[end](std::string_view text) { return text.find(end); }, {7}};
}

struct Shown {
  std::vector<std::string> pieces;
  bool stop = false;
  GrowingAnswer answer;
  explicit Shown(const std::string& end)
      : answer(
            ends_at(end), end, [this](std::string_view piece) { pieces.emplace_back(piece); },
            [this] { return stop; }) {}
};

}  // namespace

TEST_CASE("what may still change of an answer is not shown yet") {
  const std::string unknown = "\xEF\xBF\xBD";
  CHECK(settled("abc", "") == 3);
  CHECK(settled("abc" + unknown, "") == 3);
  CHECK(settled("a" + unknown + "c", "") == 5);
  CHECK(settled(unknown + unknown + unknown + unknown, "") == 3);  // a character has four bytes at most
  CHECK(settled("abc<", "<end>") == 3);
  CHECK(settled("abc<en", "<end>") == 3);
  CHECK(settled("abc<e.", "<end>") == 6);
  CHECK(settled("<", "<end>") == 0);
  CHECK(settled("", "<end>") == 0);
}

TEST_CASE("an answer is shown as it comes, without the text that ends it") {
  Shown shown("<end>");
  const auto end = shown.answer.end();
  CHECK(end.ids == std::vector<std::int64_t>{7});
  CHECK(end.text("ab") == npos);
  CHECK(end.text("ab\xEF\xBF\xBD") == npos);
  CHECK(end.text("ab\u00e9") == npos);
  CHECK(end.text("ab\u00e9<e") == npos);
  CHECK(end.text("ab\u00e9<end>") == 4);
  CHECK(end.text("ab\u00e9<end>") == 4);  // once more as a whole
  shown.answer.finish();
  CHECK(shown.pieces == std::vector<std::string>{"ab", "\u00e9"});
  CHECK(shown.answer.text() == "ab\u00e9");
  CHECK(shown.answer.tokens() == 5);
  CHECK_FALSE(shown.answer.is_stopped());
}

TEST_CASE("what was held back is shown at the end of an answer that was cut") {
  Shown shown("<end>");
  const auto end = shown.answer.end();
  CHECK(end.text("a<") == npos);
  CHECK(end.text("a<") == npos);
  shown.answer.finish();
  CHECK(shown.pieces == std::vector<std::string>{"a", "<"});
}

TEST_CASE("an answer that a person stops ends with the token that came last") {
  Shown shown("<end>");
  const auto end = shown.answer.end();
  CHECK(end.text("ab") == npos);
  shown.stop = true;
  CHECK(end.text("abc") == 3);
  shown.stop = false;
  CHECK(end.text("abc") == 3);
  shown.answer.finish();
  CHECK(shown.answer.text() == "abc");
  CHECK(shown.answer.is_stopped());
  CHECK(shown.pieces == std::vector<std::string>{"ab", "c"});
}

}  // namespace growing_answer_test
