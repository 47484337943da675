#include "arguments/arguments.h"

#include <capstan/base/exit_code.h>
#include <capstan/plugin/host.h>
#include <capstan_catch.h>

using namespace capstan;

namespace {

struct Read {
  std::optional<int> code;
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;
  std::string text = "unset";
};

Read read(const std::vector<std::string>& typed) {
  CLI::App app;
  Read made;
  plugin::Host host;
  const auto* texts = app.add_option("--text", made.text);
  arguments::add_config(app, made.config, made.overrides);
  arguments::add_ranks(app, made.ranks);
  made.code = arguments::read(app, {"mine", "what it does", typed, {}, host}, texts);
  return made;
}

constexpr int usage = static_cast<int>(ExitCode::usage);

}  // namespace

TEST_CASE("arguments are read in the order in which they were typed, and overrides follow the file") {
  const auto made = read({"a.toml", "train.max_steps=2", "-n", "3", "train.accumulation="});
  CHECK_FALSE(made.code);
  CHECK(made.config == "a.toml");
  CHECK(made.ranks == 3);
  CHECK(made.overrides == std::vector<std::string>{"train.max_steps=2", "train.accumulation="});
}

TEST_CASE("the help is an answer, and what is wrong is a wrong call") {
  CHECK(read({"--help"}).code == 0);
  CHECK(read({}).code == usage);
  CHECK(read({"a.toml", "--ranked"}).code == usage);
  for (const char* ranks : {"0", "-1", "x", "1000001"}) CHECK(read({"a.toml", "-n", ranks}).code == usage);
}

TEST_CASE("an empty argument is a script's unset variable and refused, but where an empty text means something") {
  CHECK(read({""}).code == usage);
  CHECK(read({"a.toml", ""}).code == usage);
  const auto made = read({"a.toml", "--text", ""});
  CHECK_FALSE(made.code);
  CHECK(made.text.empty());
}
