#include "plugins/commands/tokenize/tokenize_lines.h"

#include <capstan/base/error.h>
#include <capstan/base/json.h>
#include <capstan/command.h>
#include <capstan_catch.h>

#include <iostream>
#include <sstream>

#include "support/tokenizer_files.h"

using namespace capstan;

namespace {

std::string tokenized(const Json& file, bool special, const std::string& input) {
  std::istringstream in(input);
  std::ostringstream out;
  tokenize::tokenize_lines(*opened(file), special, in, out);
  return out.str();
}

}  // namespace

TEST_CASE("tokenize writes ids and their text for each line") {
  const std::string input = "{\"text\": \"ab\\u00e9\"}\n{\"text\": \"\", \"more\": 1}\n";
  CHECK(tokenized(sentencepiece_file(), false, input) ==
        "{\"ids\":[9,3,4],\"decoded\":\"ab\u00e9\"}\n{\"ids\":[],\"decoded\":\"\"}\n");
  CHECK(tokenized(sentencepiece_file(), true, input) ==
        "{\"ids\":[1,9,3,4],\"decoded\":\"ab\u00e9\"}\n{\"ids\":[1],\"decoded\":\"\"}\n");
  auto file = sentencepiece_file();
  file["post_processor"]["single"] = {{{"Sequence", {{"id", "A"}}}}, {{"SpecialToken", {{"id", "<s>"}}}}};
  CHECK(tokenized(file, true, "{\"text\": \"ab\"}") == "{\"ids\":[9,1],\"decoded\":\"ab\"}\n");
}

TEST_CASE("a line that is not a JSON object with a text is named") {
  const auto first = "{\"text\": \"a\"}\n";
  for (const std::string line : {"", "a", "{\"text\": 1}", "[\"text\"]", "{\"text\": \"\\ud800\"}"}) {
    CHECK_THROWS_WITH(
        tokenized(byte_level_file(), false, first + line + "\n"),
        Contains("line 2 of the input is not a JSON object with a text") && Contains("such as {\"text\""));
  }
}

TEST_CASE("tokenize takes the hub's id of a model that is in its cache") {
  const Scratch hub;
  hub.write("models--org--name/refs/main", "abc");
  hub.write("models--org--name/snapshots/abc/tokenizer.json", sentencepiece_file().dump());
  plugin::Host host;
  Diagnostics faults;
  const auto made = host.load("command", "tokenize").make({}, faults);
  const auto run = [&](const std::string& name) {
    const auto environment = [&](const std::string& variable) {
      return variable == "HF_HUB_CACHE" ? std::optional(hub.path().string()) : std::nullopt;
    };
    return std::static_pointer_cast<command::Command>(made)->run({"tokenize", "", {name}, environment, host});
  };
  std::istringstream nothing;
  auto* before = std::cin.rdbuf(nothing.rdbuf());
  CHECK(run("org/name") == 0);
  std::cin.rdbuf(before);
  REQUIRE(host.registry().all().size() == 2);
  CHECK(host.registry().all().back().kind == "tokenizer");
  CHECK_THROWS_WITH(run("org/nome"), Contains("no model org/nome in the hub's cache") &&
                                         Contains("did you mean 'org/name'? Or download"));
  CHECK_THROWS_WITH(run("byet"), Contains("did you mean 'byte'"));
}
