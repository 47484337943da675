#include "config/plugin_table.h"

#include <capstan_catch.h>

#include "config/document.h"
#include "config/files.h"

namespace plugin_table_test {

using namespace capstan;
using namespace capstan::config;

TEST_CASE("the host's options leave a strategy's table, and the plugin gets the rest") {
  const test::WorkingFolder folder;
  folder.write("c/a.toml", "[strategy.lora]\nrank = 4\nenabled = false\npath = \"../x/lora.so\"\n[strategy.fsdp]\n");
  Diagnostics diagnostics;
  const auto strategies = load("c/a.toml", {}, diagnostics).children("strategy");
  const auto fsdp = keyed_plugin(strategies.at(0), diagnostics);
  CHECK(fsdp.name == "fsdp");
  CHECK(fsdp.enabled);
  CHECK(fsdp.path.empty());
  CHECK(fsdp.host.empty());
  CHECK(fsdp.where == "c/a.toml:5");
  const auto lora = keyed_plugin(strategies.at(1), diagnostics);
  CHECK(diagnostics.empty());
  CHECK(lora.name == "lora");
  CHECK_FALSE(lora.enabled);
  CHECK(lora.path == (std::filesystem::current_path() / "x/lora.so").string());
  CHECK(lora.where == "c/a.toml:4");
  CHECK(lora.host.size() == 2);
  REQUIRE(lora.section.entries.size() == 1);
  CHECK(lora.section.entries[0].key == "rank");
  CHECK(lora.section.path == "strategy.lora");
}

TEST_CASE("the model's table names its plugin, or its file") {
  const test::WorkingFolder folder;
  folder.write("c/a.toml", "[model]\nplugin = \"gpt\"\npath = \"weights\"\n[data]\nplugin = \"../build/mine.so\"\n");
  Diagnostics diagnostics;
  const auto document = load("c/a.toml", {}, diagnostics);
  const auto model = chosen_plugin(document.section("model"), diagnostics);
  CHECK(model.name == "gpt");
  CHECK(model.path.empty());
  CHECK(model.where == "c/a.toml:2");
  REQUIRE(model.section.entries.size() == 1);
  CHECK(model.section.entries[0].key == "path");
  const auto data = chosen_plugin(document.section("data"), diagnostics);
  CHECK(data.name == "mine");
  CHECK(data.path == (std::filesystem::current_path() / "build/mine.so").string());
  CHECK(diagnostics.empty());
}

TEST_CASE("a table that names no plugin, and host options of a wrong type, are faults") {
  const test::WorkingFolder folder;
  folder.write("a.toml", "[data]\nplugin = \"\"\n[strategy.x]\nenabled = \"no\"\n");
  Diagnostics diagnostics;
  const auto document = load("a.toml", {}, diagnostics);
  chosen_plugin(document.section("model"), diagnostics);
  chosen_plugin(document.section("data"), diagnostics);
  keyed_plugin(document.children("strategy").at(0), diagnostics);
  CHECK(test::text(diagnostics) ==
        "a.toml: model.plugin is not set, and it has no default\n"
        "    fix: add plugin to [model]: name of the plugin, or its .so when that lies elsewhere\n"
        "a.toml:2: data.plugin is empty\n    fix: write the plugin's name\n"
        "a.toml:4: strategy.x.enabled is \"no\" (a string), but must be true or false\n"
        "    fix: for example enabled = true\n");
}

}  // namespace plugin_table_test
