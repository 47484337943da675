#include "plugins/libraries/records/template.h"

#include <capstan_catch.h>

#include "plugins/libraries/records/jsonl_data.h"
#include "support/folder.h"
#include "support/options.h"

namespace template_test {

using namespace capstan;
using namespace jsonl;
using test::Folder;

namespace {

// The first fault of a file of one line that is written with this template; empty: there is none.
std::string fault(const std::string& line, const std::string& turn) {
  const Folder folder;
  const auto path = folder.write("a.jsonl", line + "\n");
  Diagnostics diagnostics;
  JsonlData(testing::options_of<JsonlOptions>("data", {{"train", path}, {"turn", turn}})).check(diagnostics);
  const auto text = diagnostics.empty() ? std::string() : diagnostics.list().front().text();
  return text.starts_with(folder.path().string()) ? text.substr(folder.path().string().size() + 1) : text;
}

}  // namespace

TEST_CASE("a template that another language was meant by is refused") {
  const auto of_template = [](const std::string& turn) { return fault(R"({"text": "a"})", turn); };
  CHECK(of_template("<{{role}}>{{content}}") ==
        "a.toml:3: data.turn is \"<{{role}}>{{content}}\", whose second braces would stay in the text\n    fix: write "
        "{content} and {role} with one brace on each side: there is no template language");
  CHECK(
      of_template("{role}: {content} {content}") ==
      "a.toml:3: data.turn is \"{role}: {content} {content}\", which has a place for a message's text twice\n    fix: "
      "write {content} once");
  CHECK(of_template("{\"{role}\": \"{content}\"}").empty());
}

TEST_CASE("a role that is known but for its case is refused, since nothing of it would be learned") {
  const auto of_role = [](const std::string& role) {
    return fault(
        R"({"messages": [{"role": "assistant", "content": "a"}, {"role": ")" + role + R"(", "content": "b"}]})",
        "<{role}>{content}</>");
  };
  CHECK(
      of_role("Assistant") ==
      "a.jsonl:1: 'messages[1].role' is 'Assistant', and roles are written in lower case\n    fix: write 'assistant'");
  CHECK_THAT(of_role(" user"), Contains("write 'user'"));
  CHECK(of_role("assistant").empty());
  CHECK(of_role("Tool").empty());
}

}  // namespace template_test
