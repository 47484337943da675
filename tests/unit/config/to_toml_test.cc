#include "config/to_toml.h"

#include <capstan_catch.h>

#include "config/document.h"
#include "config/files.h"
#include "config/plugin_table.h"

namespace to_toml_test {

using namespace capstan;
using namespace capstan::config;

namespace {

struct All {
  bool flag = true;
  std::int64_t count = -9007199254740993;
  double whole = 3;
  double tiny = 5e-324;
  double tenth = 0.1;
  std::string text = "a \"quote\", a \\, a\nline, é, \x01 and a # sign";
  std::string file = "some/where";
  std::string no_file;
  std::optional<std::int64_t> unset;
  std::vector<std::int64_t> integers{1, -2};
  std::vector<double> numbers{1, 0.5, 1e300};
  std::vector<std::string> strings{"x", "y, z", ""};
  std::vector<std::string> none;
  double theta = 1e4;
  static void describe(OptionTable<All>& t) {
    t.add("flag", &All::flag).doc("d");
    t.add("count", &All::count).doc("d");
    t.add("whole", &All::whole).doc("d");
    t.add("tiny", &All::tiny).doc("d");
    t.add("tenth", &All::tenth).doc("d");
    t.add("text", &All::text).doc("d");
    t.add("file", &All::file).path().doc("d");
    t.add("no_file", &All::no_file).path().doc("d");
    t.add("unset", &All::unset).doc("d");
    t.add("integers", &All::integers).doc("d");
    t.add("numbers", &All::numbers).doc("d");
    t.add("strings", &All::strings).doc("d");
    t.add("none", &All::none).doc("d");
    t.add("rope.theta", &All::theta).doc("d");
  }
};

}  // namespace

TEST_CASE("a resolved configuration loads back to the same values, from another folder too") {
  const test::WorkingFolder folder;
  folder.write("c/a.toml", "[train]\ncount = 7\nfile = \"../in\"\nnumbers = [2, 0.1]\n");
  Diagnostics diagnostics;
  const auto document = load("c/a.toml", {"train.tenth=0.30000000000000004"}, diagnostics);
  const Options<All> first(document.section("train"), diagnostics);
  folder.write("runs/1/config.toml", to_toml({{"train", {}, first.resolved()}}));
  const auto again = load("runs/1/config.toml", {}, diagnostics);
  const Options<All> second(again.section("train"), diagnostics);
  CHECK(test::text(diagnostics) == "");
  REQUIRE(second.resolved().size() == first.resolved().size());
  for (std::size_t i = 0; i < first.resolved().size(); ++i) {
    INFO(first.resolved()[i].spec.key);
    if (first.resolved()[i].spec.key == "file") continue;
    CHECK(second.resolved()[i].value == first.resolved()[i].value);
  }
  CHECK(second->file == (folder.path() / "in").string());
  CHECK(second->count == 7);
  CHECK(second->tenth == 0.30000000000000004);
  CHECK(second->text == All{}.text);
}

TEST_CASE("a default path is written as an absolute one, an empty one stays empty") {
  const test::WorkingFolder folder;
  Diagnostics diagnostics;
  const Options<All> options(Section{"train", {}, {}}, diagnostics);
  folder.write("runs/config.toml", to_toml({{"train", {}, options.resolved()}}));
  const Options<All> again(load("runs/config.toml", {}, diagnostics).section("train"), diagnostics);
  CHECK(again->file == (std::filesystem::current_path() / "some/where").string());
  CHECK(again->no_file.empty());
}

TEST_CASE("plugins keep their tables, even empty ones, and comments say where values came from") {
  const test::WorkingFolder folder;
  folder.write("a.toml", "[model]\nplugin = \"gpt\"\n[strategy.fsdp]\n[strategy.lora]\nenabled = false\n");
  Diagnostics diagnostics;
  const auto document = load("a.toml", {"strategy.lora.path=l/lora.so"}, diagnostics);
  std::vector<ResolvedTable> tables;
  tables.push_back({"model", chosen_plugin(document.section("model"), diagnostics).host, {}});
  for (const auto& section : document.children("strategy")) {
    tables.push_back({section.path, keyed_plugin(section, diagnostics).host, {}});
  }
  const auto lora = (std::filesystem::current_path() / "l/lora.so").string();
  CHECK(to_toml(tables) ==
        "[model]\nplugin = \"gpt\"  # a.toml:2\n\n[strategy.fsdp]\n\n[strategy.lora]\n"
        "enabled = false  # a.toml:5\npath = \"" +
            lora + "\"  # command line\n");
  CHECK(diagnostics.empty());
}

}  // namespace to_toml_test
