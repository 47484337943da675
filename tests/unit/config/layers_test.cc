#include "config/layers.h"

#include <capstan_catch.h>

#include "config/loading.h"

namespace layers_test {

using namespace capstan;
using namespace capstan::config;
using test::faults;
using test::faults_of;
using test::look;

TEST_CASE("bases are merged table by table, and what stands in the file wins") {
  const test::WorkingFolder folder;
  folder.write("base/common.toml", "[train]\nmax_steps = 1\nmicro_batch = 2\n[strategy.fsdp]\nmode = \"full_shard\"\n");
  folder.write("base/model.toml", "extends = \"common.toml\"\n[model]\nplugin = \"gpt\"\n[train]\nmicro_batch = 4\n");
  folder.write("a.toml", "extends = \"base/model.toml\"\n[train]\nmax_steps = 250\n[strategy.lora]\n");
  Diagnostics diagnostics;
  const auto document = load("a.toml", {}, diagnostics);
  CHECK(diagnostics.empty());
  CHECK(look(document.section("train"), "max_steps") == "250 @ a.toml:3");
  CHECK(look(document.section("train"), "micro_batch") == "4 @ base/model.toml:5");
  CHECK(look(document.section("model"), "plugin") == "\"gpt\" @ base/model.toml:3");
  CHECK(document.children("strategy").size() == 2);
  CHECK(document.section("train").entries.size() == 2);
}

TEST_CASE("several bases: later ones win, and two of them may share one") {
  const test::WorkingFolder folder;
  folder.write("root.toml", "[train]\na = 0\nb = 0\nc = 0\n");
  folder.write("one.toml", "extends = \"root.toml\"\n[train]\na = 1\nb = 1\n");
  folder.write("two.toml", "[train]\nb = 2\n");
  folder.write("a.toml", "extends = [\"one.toml\", \"two.toml\"]\n");
  Diagnostics diagnostics;
  const auto train = load("a.toml", {}, diagnostics).section("train");
  CHECK(diagnostics.empty());
  CHECK(look(train, "a") == "1 @ one.toml:3");
  CHECK(look(train, "b") == "2 @ two.toml:2");
  CHECK(look(train, "c") == "0 @ root.toml:4");
}

TEST_CASE("a base that is missing or that extends in a circle names who asks") {
  const test::WorkingFolder folder;
  Diagnostics diagnostics;
  folder.write("c/a.toml", "# first\nextends = \"base/no.toml\"\n");
  CHECK(test::error_of([&] { load("c/a.toml", {}, diagnostics); }) ==
        "c/a.toml:2: extends \"base/no.toml\", but c/base/no.toml does not exist\n"
        "    fix: the name is taken from the folder of the file that extends");
  folder.write("x.toml", "extends = \"y.toml\"\n");
  folder.write("y.toml", "\nextends = [\"z.toml\"]\n");
  folder.write("z.toml", "extends = \"./y.toml\"\n");
  Diagnostics more;
  CHECK(test::error_of([&] { load("x.toml", {}, more); }) ==
        "z.toml:1: extends goes in a circle: y.toml -> z.toml -> y.toml\n    fix: remove one of these extends");
  CHECK(faults("extends = 3\n") ==
        "a.toml:1: extends must be a file name or a list of file names\n"
        "    fix: for example extends = \"base/common.toml\"\n");
}

TEST_CASE("a base with broken TOML is named itself") {
  const test::WorkingFolder folder;
  folder.write("base.toml", "[train]\n\nlr = \n");
  folder.write("a.toml", "extends = \"base.toml\"\n");
  Diagnostics diagnostics;
  CHECK_THAT(test::error_of([&] { load("a.toml", {}, diagnostics); }), Contains("base.toml:3: not valid TOML: "));
}

TEST_CASE("files that extend several others twice, and keys without end, are refused soon") {
  const test::WorkingFolder folder;
  folder.write("0.toml", "[train]\nmax_steps = 1\n");
  for (int i = 1; i <= 25; ++i) {
    const auto base = std::to_string(i - 1) + ".toml";
    folder.write(std::to_string(i) + ".toml", "extends = [\"" + base + "\", \"" + base + "\"]\n");
  }
  CHECK_THAT(faults_of("25.toml"), Contains("extends reads more than 200 files"));
  std::string many = "[train]\n";
  for (int i = 0; i < 200000; ++i) many += "k" + std::to_string(i) + " = 1\n";
  folder.write("many.toml", many);
  CHECK_THAT(faults_of("many.toml"), Contains("many.toml: it has 20000") && Contains("keys, more than"));
}

}  // namespace layers_test
