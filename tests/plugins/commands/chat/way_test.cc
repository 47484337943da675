#include "plugins/libraries/asking/way.h"

#include <capstan/plugin/host.h>
#include <capstan_catch.h>

#include "plugins/commands/chat/dialogue.h"  // so that the plugin's libraries are linked
#include "plugins/libraries/asking/conversation.h"
#include "support/errors.h"
#include "support/folder.h"
#include "support/tokenizer_files.h"

namespace way_test {

using namespace capstan;
using asking::Given;
using test::error_of;

namespace {

asking::Way way(const std::string& model, const std::string& config, const Given& given = {}) {
  static plugin::Host host;
  const command::Call call{"chat", "", {}, [](const std::string&) { return std::nullopt; }, host};
  return asking::way_of(model, config, call, given);
}

}  // namespace

TEST_CASE("a model's folder is asked by its template, or by one that the command line names") {
  const test::Folder folder;
  const auto base = folder.write("base/config.json", "{}");
  folder.write("tuned/chat_template.jinja", "x");
  const auto path = [&](const std::string& name) { return (folder / name).string(); };
  CHECK_FALSE(way(path("base"), "").source);
  const auto tuned = way(path("tuned"), "", {"", "", {"a=false", "b = 2", "c=low", "d=[1]"}});
  REQUIRE(tuned.source);
  CHECK(tuned.source->folder == path("tuned"));
  CHECK(tuned.source->file.empty());
  CHECK(tuned.source->variables == Json::parse(R"({"a": false, "b": 2, "c": "low", "d": [1]})"));
  CHECK_FALSE(tuned.is_run);
  const auto named = way(path("base"), "", {"", path("tuned/chat_template.jinja"), {}});
  REQUIRE(named.source);
  CHECK(named.source->folder == path("base"));
  CHECK(named.source->file == path("tuned/chat_template.jinja"));
  CHECK(way(path("base"), "", {"", path("tuned"), {}}).source->folder == path("tuned"));
  CHECK_THAT(error_of([&] { way(path("base"), "", {"", path("gone"), {}}); }), Contains("there is no such template"));
  for (const std::string text : {"a", "=1", " = 1", ""}) {
    CHECK_THAT(error_of([&] {
                 way(path("tuned"), "", {"", "", {text}});
               }),
               Contains("--template-variable '" + text + "' has no name and value"));
  }
}

TEST_CASE("a run is asked by what its configuration wrote conversations with") {
  const test::Folder folder;
  folder.write("model/tokenizer_config.json", R"({"chat_template": "x"})");
  folder.write("other.jinja", "y");
  const auto model = "[model]\npath = \"" + (folder / "model").string() + "\"\n";
  const auto run = (folder / "run").string();
  const auto plain = way(run, folder.write("run/config.toml", model + "[data]\nturn = \"{content}\"\n"));
  REQUIRE(plain.source);
  CHECK(plain.source->folder == (folder / "model").string());
  CHECK(plain.is_run);
  CHECK_FALSE(plain.has_learned);
  const auto learned =
      way(run,
          folder.write("run/config.toml",
                       model + "[data]\nchat_template = \"model\"\ntemplate_name = \"tool_use\"\ntemplate_date = "
                               "\"2026-01-02\"\ntemplate_variables = [\"effort = \\\"low\\\"\", \"n = 1\"]\n"),
          {"", "", {"n=2"}});
  REQUIRE(learned.source);
  CHECK(learned.has_learned);
  CHECK(learned.source->name == "tool_use");
  CHECK(learned.source->date == "2026-01-02");
  CHECK(learned.source->variables == Json::parse(R"({"effort": "low", "n": 2})"));
  const auto by_file = way(run, folder.write("run/config.toml", model + "[data]\nchat_template_file = \"" +
                                                                    (folder / "other.jinja").string() + "\"\n"));
  REQUIRE(by_file.source);
  CHECK(by_file.has_learned);
  CHECK(by_file.source->file == (folder / "other.jinja").string());
  const auto mixed = way(run, folder.write("run/config.toml", model + "[data.sources.1]\nplugin = \"squad\"\n"
                                                                      "[data.sources.2]\nchat_template = \"model\"\n"
                                                                      "template_variables = [\"n = 1\"]\n"));
  CHECK(mixed.has_learned);
  CHECK(mixed.source->variables == Json::parse(R"({"n": 1})"));
  const auto file = folder.write("tuned/tokenizer.json", "{}");
  folder.write("tuned/chat_template.json", "{}");
  CHECK(way(run, folder.write("run/config.toml", model + "[data]\ntokenizer = \"" + file + "\"\n")).source->folder ==
        (folder / "tuned").string());
  // What the run began with is gone, or was no folder: its own is there.
  folder.write("run/model/chat_template.jinja", "x");
  const auto gone =
      way(run, folder.write("run/config.toml", "[model]\npath = \"/gone\"\n[data]\ntokenizer = \"byte\"\n"));
  REQUIRE(gone.source);
  CHECK(gone.source->folder == (folder / "run/model").string());
}

TEST_CASE("a variable that the template does not read is refused") {
  const test::Folder folder;
  folder.write("m/chat_template.jinja", "{% if enable_thinking %}a{% endif %}{{ messages[0].content }}");
  const chat_template::Source source{(folder / "m").string()};
  CHECK_NOTHROW(asking::head_of(source, {"", "", {"enable_thinking=true"}}));
  CHECK_THAT(error_of([&] {
               asking::head_of(source, {"", "", {"enable_thinkin=true"}});
             }),
             Contains("the chat template does not read --template-variable enable_thinkin\n") &&
                 Contains("fix: did you mean 'enable_thinking'?"));
}

TEST_CASE("a turn's end is a token without text, or a text") {
  auto file = byte_level_file();
  file["added_tokens"] = {added_token(10, "<end>", {{"special", true}})};
  const auto tokenizer = opened(file);
  const auto by_token = asking::answer_end("<end>", *tokenizer);
  CHECK(by_token.ids == std::vector<std::int64_t>{10});
  CHECK_FALSE(by_token.text);
  const auto by_text = asking::answer_end("cab", *tokenizer);
  CHECK(by_text.ids.empty());
  CHECK(by_text.text("abcabc") == 2);
  CHECK(by_text.text("abc") == std::string::npos);
  const auto none = asking::answer_end("", *tokenizer);
  CHECK(none.ids.empty());
  CHECK_FALSE(none.text);
}

TEST_CASE("the system's message comes first, once") {
  auto messages = Json::array({asking::message("user", "a")});
  asking::put_system(messages, "");
  CHECK(messages.size() == 1);
  asking::put_system(messages, "s");
  asking::put_system(messages, "t");
  CHECK(messages.dump() == R"([{"role":"system","content":"s"},{"role":"user","content":"a"}])");
}

}  // namespace way_test
