#include "plugins/commands/generate/prompts.h"

#include <capstan_catch.h>

#include <sstream>

#include "support/errors.h"

using capstan::Json;
using test::error_of;

namespace {

std::vector<generate::PromptLine> lines(const std::string& input) {
  std::istringstream in(input);
  return generate::read_prompts(in, true);
}

std::vector<std::string> prompts(const std::string& input, bool json) {
  std::istringstream in(input);
  std::vector<std::string> texts;
  for (const auto& line : generate::read_prompts(in, json)) texts.push_back(line.text + "|" + line.id);
  return texts;
}

}  // namespace

TEST_CASE("prompts come a line each, or as JSON lines") {
  CHECK(prompts("one\n\n  two \n", false) == std::vector<std::string>{"one|", "  two |"});
  CHECK(prompts("{\"prompt\": \"a\\nb\"}\n{\"prompt\": \"c\", \"id\": \"x\"}\n{\"prompt\": \"d\", \"id\": 3}\n",
                true) == std::vector<std::string>{"a\nb|", "c|\"x\"", "d|3"});
  for (const std::string line : {"a", "[]", "{\"text\": \"a\"}", "{\"prompt\": 1}"}) {
    CHECK(error_of([&] { prompts("{\"prompt\": \"a\"}\n" + line, true); }) ==
          "line 2 of the input is not a JSON object with a prompt\n    fix: write one object a line, such as "
          "{\"prompt\": "
          "\"The capital of France is\"}");
  }
}

TEST_CASE("a JSON line may be a conversation, which comes out with its answer") {
  const auto read = lines(
      R"({"id": 7, "messages": [{"role": "user", "content": "a"}], "tools": [{"name": "t"}], "more": 1, "documents": null})"
      "\n"
      R"({"messages": [{"role": "user", "content": "b"}], "chat_template_kwargs": {"enable_thinking": false}})"
      "\n"
      R"({"prompt": "c", "id": "x"})");
  REQUIRE(read.size() == 3);
  CHECK(read[0].conversation ==
        Json::parse(R"({"messages": [{"role": "user", "content": "a"}], "tools": [{"name": "t"}]})"));
  CHECK(read[1].conversation.at("variables") == Json{{"enable_thinking", false}});
  CHECK(read[2].conversation.is_null());
  CHECK(
      generate::answered_line(read[0], "A").dump() ==
      R"({"id":7,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":"A"}],"tools":[{"name":"t"}],"answer":"A"})");
  CHECK(
      generate::answered_line(read[1], "B").dump() ==
      R"({"messages":[{"role":"user","content":"b"},{"role":"assistant","content":"B"}],"chat_template_kwargs":{"enable_thinking":false},"answer":"B"})");
  CHECK(generate::answered_line(read[2], "C").dump() == R"({"id":"x","prompt":"c","answer":"C"})");
}

TEST_CASE("a conversation that cannot be answered is named by its line") {
  for (const std::string messages : {"[]", "1", "[1]", "[{\"content\": \"a\"}]"}) {
    CHECK_THAT(error_of([&] { lines("\n{\"messages\": " + messages + "}"); }),
               Contains("line 2 of the input has no list of messages\n    fix: write them as {\"messages\": "));
  }
  CHECK(
      error_of([] { lines(R"({"messages": [{"role": "assistant", "content": "a"}]})"); }) ==
      "line 1 of the input ends with an answer of the assistant's\n    fix: take its last message out: it is what the "
      "model is asked for");
}
