#include "plugins/commands/generate/prompts.h"

#include <capstan_catch.h>

#include <sstream>

#include "support/errors.h"

using test::error_of;

namespace {

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
  for (const std::string line : {"a", "{\"text\": \"a\"}", "{\"prompt\": 1}"}) {
    CHECK(error_of([&] { prompts("{\"prompt\": \"a\"}\n" + line, true); }) ==
          "line 2 of the input is not a JSON object with a prompt\n    fix: write one object a line, such as "
          "{\"prompt\": "
          "\"The capital of France is\"}");
  }
}
