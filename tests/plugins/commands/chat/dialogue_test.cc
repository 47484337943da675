#include "plugins/commands/chat/dialogue.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <sstream>

namespace dialogue_test {

using namespace capstan;
using chat::Dialogue;

namespace {

// A template that writes "[role:content]", and refuses "bad"; a byte is a token.
std::string write(const Json& conversation) {
  std::string text;
  for (const auto& message : conversation.at("messages")) {
    if (message.at("content") == Json("bad")) throw Error("the template refuses it", "say something else");
    text += "[" + message.at("role").text() + ":" + message.at("content").text() + "]";
  }
  return text;
}

struct Talk {
  std::istringstream in;
  std::string shown;
  std::string said;
  Dialogue dialogue;
  explicit Talk(const std::string& lines, std::int64_t positions = 1000, bool is_terminal = false,
                const std::string& system = "")
      : in(lines),
        dialogue({write, [](const std::string& text) { return std::ssize(text); }, positions, 20},
                 {in, is_terminal, [this](std::string_view text) { shown += text; },
                  [this](std::string_view text) { said += text; }},
                 system) {}
  // The prompts of all questions, each of which is answered by the number of its place.
  std::vector<std::string> prompts() {
    std::vector<std::string> all;
    while (const auto prompt = dialogue.next()) {
      all.push_back(*prompt);
      dialogue.add_answer(std::to_string(all.size()));
    }
    return all;
  }
};

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("a question is asked with what was said before it") {
  Talk talk("a\n\n  \n b \nc\\\nd\n", 1000, false, "s");
  CHECK(talk.prompts() == Texts{"[system:s][user:a]", "[system:s][user:a][assistant:1][user: b ]",
                                "[system:s][user:a][assistant:1][user: b ][assistant:2][user:c\nd]"});
  CHECK(talk.shown.empty());
  CHECK(talk.said.empty());
}

TEST_CASE("commands change the conversation, and a path is none") {
  Talk talk("a\n/system  be short \nb\n/reset\n/home/me is what?\n/system\n/rest\n /reset\nc\n/exit\nd\n");
  CHECK(talk.prompts() == Texts{"[user:a]", "[system:be short][user:a][assistant:1][user:b]",
                                "[system:be short][user:/home/me is what?]",
                                "[user:/home/me is what?][assistant:3][user: /reset]",
                                "[user:/home/me is what?][assistant:3][user: /reset][assistant:4][user:c]"});
  CHECK_THAT(talk.said, Contains("the system's message is set\na new conversation\nthere is no system's message any "
                                 "more\nthere is no /rest; begin a question with a space\n/reset "));
}

TEST_CASE("on a terminal a mark shows where to type") {
  Talk talk("a\\\nb\n", 1000, true);
  CHECK(talk.prompts() == Texts{"[user:a\nb]"});
  CHECK(talk.shown == "> . > \n");
}

TEST_CASE("where positions are full the oldest questions and answers are left out") {
  Talk talk("aaaaaaaaaa\nbbbbbbbbbb\ncccccccccc\nd\n", 70, false, "s");
  const auto prompts = talk.prompts();
  REQUIRE(prompts.size() == 4);
  CHECK(prompts[1] == "[system:s][user:bbbbbbbbbb]");  // 10 + 17 + 13 + 17 tokens, and 17 for an answer
  CHECK(prompts[2] == "[system:s][user:cccccccccc]");
  CHECK(prompts[3] == "[system:s][user:cccccccccc][assistant:3][user:d]");
  CHECK(talk.said ==
        "the oldest 2 messages are left out: the model has 70 positions\n"
        "the oldest 2 messages are left out: the model has 70 positions\n");
}

TEST_CASE("a question that cannot be asked is forgotten, and the conversation stays") {
  Talk talk("a\nbad\n" + std::string(80, 'x') + "\nb\n", 70);
  CHECK(talk.prompts() == Texts{"[user:a]", "[user:a][assistant:1][user:b]"});
  CHECK(talk.said ==
        "the template refuses it\n    fix: say something else\n"
        "the question has 87 tokens with what the template writes, the model has 70 positions\n"
        "    fix: ask a shorter one\n");
}

}  // namespace dialogue_test
