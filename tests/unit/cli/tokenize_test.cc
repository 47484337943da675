#include "cli/tokenize_command.h"

#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <sstream>

#include "tokenizer/tokenizer_files.h"

using namespace capstan;

namespace {

std::string tokenized(const nlohmann::json& file, bool special, const std::string& input) {
  const Scratch scratch;
  write_file(scratch / "tokenizer.json", file.dump());
  std::istringstream in(input);
  std::ostringstream out;
  const auto code = cli::tokenize_command(scratch.path().string(), {}, special, in, out);
  CHECK(code == 0);
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

TEST_CASE("tokenize takes the hub's id of a model that is in its cache") {
  const Scratch hub;
  hub.write("models--org--name/refs/main", "abc");
  hub.write("models--org--name/snapshots/abc/tokenizer.json", sentencepiece_file().dump());
  std::istringstream in("{\"text\": \"ab\"}\n");
  std::ostringstream out;
  CHECK(cli::tokenize_command("org/name", {hub.path()}, false, in, out) == 0);
  CHECK(out.str() == "{\"ids\":[9],\"decoded\":\"ab\"}\n");
  CHECK_THROWS_WITH(
      cli::tokenize_command("org/nome", {hub.path()}, false, in, out),
      Contains("no model org/nome in the hub's cache") && Contains("did you mean 'org/name'? Or download"));
  CHECK_THROWS_WITH(cli::tokenize_command("byet", {hub.path()}, false, in, out), Contains("did you mean 'byte'"));
}

TEST_CASE("a line that is not a JSON object with a text is named") {
  const auto first = "{\"text\": \"a\"}\n";
  for (const std::string line : {"", "a", "{\"text\": 1}", "[\"text\"]", "{\"text\": \"\\ud800\"}"}) {
    CHECK_THROWS_WITH(
        tokenized(byte_level_file(), false, first + line + "\n"),
        Contains("line 2 of the input is not a JSON object with a text") && Contains("such as {\"text\""));
  }
}
