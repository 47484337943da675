#include "config/document.h"

#include <capstan_catch.h>

#include "config/loading.h"

namespace document_test {

using namespace capstan;
using namespace capstan::config;
using test::faults;
using test::look;

TEST_CASE("a file's tables become sections, with file and line of each value") {
  const test::WorkingFolder folder;
  folder.write("c/a.toml",
               "[train]\nmax_steps = 250\nlr = 1e-4\n\n[model]\nplugin = \"gpt\"\nrope = {theta = 1e4}\n"
               "[model.norm]\neps = 1e-5\n[strategy.lora]\ntargets = [\"a\",\n  \"b\"]\n[strategy.fsdp]\n"
               "[monitor.console]\n");
  Diagnostics diagnostics;
  const auto document = load("c/a.toml", {}, diagnostics);
  CHECK(test::text(diagnostics).empty());
  CHECK(document.file() == "c/a.toml");
  CHECK(look(document.section("train"), "max_steps") == "250 @ c/a.toml:2");
  CHECK(look(document.section("train"), "lr") == "1e-04 @ c/a.toml:3");
  CHECK(look(document.section("model"), "rope.theta") == "10000.0 @ c/a.toml:7");
  CHECK(look(document.section("model"), "norm.eps") == "1e-05 @ c/a.toml:9");
  CHECK(document.section("model").origin.text() == "c/a.toml:5");
  CHECK(document.section("data").entries.empty());
  CHECK(document.section("data").path == "data");
  CHECK(document.section("data").origin.text() == "c/a.toml");
  const auto strategies = document.children("strategy");
  REQUIRE(strategies.size() == 2);
  CHECK(strategies[0].path == "strategy.fsdp");
  CHECK(strategies[0].entries.empty());
  CHECK(strategies[0].origin.text() == "c/a.toml:13");
  CHECK(strategies[1].path == "strategy.lora");
  CHECK(look(strategies[1], "targets") == "[\"a\", \"b\"] @ c/a.toml:11");
  REQUIRE(document.children("monitor").size() == 1);
}

TEST_CASE("a value replaces a table of that name, and a table a value") {
  const test::WorkingFolder folder;
  folder.write("base.toml", "[model]\nrope.theta = 1\nrope.kind = \"x\"\nnorm = \"rms\"\n");
  folder.write("a.toml", "extends = \"base.toml\"\n[model]\nrope = \"none\"\nnorm.eps = 1e-5\n");
  Diagnostics diagnostics;
  const auto model = load("a.toml", {}, diagnostics).section("model");
  CHECK(model.entries.size() == 2);
  CHECK(look(model, "rope") == "\"none\" @ a.toml:3");
  CHECK(look(model, "norm.eps") == "1e-05 @ a.toml:4");
}

TEST_CASE("tables and values that have no place are refused") {
  CHECK(faults("[trian]\nsteps = 1\nx.y = 2\n") == "a.toml:1: unknown table [trian]\n    fix: did you mean 'train'?\n");
  CHECK_THAT(faults("steps = 1\n"), Contains("a.toml:1: steps stands outside of any table"));
  CHECK(faults("train = 3\n") ==
        "a.toml:1: train is 3, but must be a table\n    fix: write [train] and its options below\n");
  CHECK(faults("[strategy]\nfsdp = true\n") ==
        "a.toml:2: strategy.fsdp is true, but must be a table\n"
        "    fix: write [strategy.fsdp] and its options below\n");
  CHECK_THAT(faults("strategy = \"fsdp\"\n"), Contains("fix: write [strategy.<plugin>]"));
  CHECK(faults("[train.deep]\n") == "a.toml:1: [train.deep] is empty\n    fix: remove it, or set an option in it\n");
}

TEST_CASE("overrides win over files and are read as TOML, else as text") {
  const test::WorkingFolder folder;
  folder.write("a.toml", "[train]\nmax_steps = 1\n[strategy.lora]\nrank = 8\n");
  Diagnostics diagnostics;
  const auto document = load("a.toml",
                             {"train.max_steps=250", "train.lr = 1e-4", "run.name=my run", "run.dir=/tmp/x=y",
                              "strategy.lora.enabled=false", "strategy.lora.targets=[\"a\", \"b\"]",
                              "model.rope={theta = 5}", "data.note=\"\"", "data.day=2024-xx", "train.max_steps=300"},
                             diagnostics);
  CHECK(test::text(diagnostics).empty());
  CHECK(look(document.section("train"), "max_steps") == "300 @ command line");
  CHECK(look(document.section("train"), "lr") == "1e-04 @ command line");
  CHECK(look(document.section("run"), "name") == "\"my run\" @ command line");
  CHECK(look(document.section("run"), "dir") == "\"/tmp/x=y\" @ command line");
  CHECK(look(document.section("model"), "rope.theta") == "5 @ command line");
  CHECK(look(document.section("data"), "note") == "\"\" @ command line");
  CHECK(look(document.section("data"), "day") == "\"2024-xx\" @ command line");
  CHECK(document.section("train").find("max_steps")->text == "300");
  const auto lora = document.children("strategy").at(0);
  CHECK(look(lora, "enabled") == "false @ command line");
  CHECK(look(lora, "targets") == "[\"a\", \"b\"] @ command line");
  CHECK(look(lora, "rank") == "8 @ a.toml:4");
}

TEST_CASE("a value that is settled wins over files and overrides, and keeps the place that it is given") {
  const test::WorkingFolder folder;
  folder.write("a.toml", "[train]\nmicro_batch = \"auto\"\nlr = 1\n");
  const Item size{{"train", "micro_batch"}, Value(std::int64_t{8}), false, {Origin::Layer::file, "a.toml", 2}};
  const Item gathers{{"train", "regather"}, Value(std::string("step")), false, {}};
  Diagnostics diagnostics;
  const auto document = load("a.toml", {"train.micro_batch=4"}, diagnostics, {}, {size, gathers});
  CHECK(test::text(diagnostics).empty());
  CHECK(look(document.section("train"), "micro_batch") == "8 @ a.toml:2");
  CHECK(look(document.section("train"), "regather") == "\"step\" @ default");
  CHECK(look(document.section("train"), "lr") == "1 @ a.toml:3");
}

TEST_CASE("an override's text keeps its white space, and what is read as TOML ignores it") {
  const test::WorkingFolder folder;
  folder.write("a.toml", "[data]\nplugin = \"jsonl\"\n");
  Diagnostics diagnostics;
  const auto document =
      load("a.toml",
           {"data.turn=<{role}>{content}<end>\n", "data.user_turn= USER: {content}", "data.system_turn=\n\t{content} ",
            "data.assistant_turn=\"{content}\\n\" \n", "run.name = my run ", "train.max_steps= 250\n",
            "train.lr = 1e-4 ", "strategy.lora.targets= [\"a\", \"b\"]\n", "run.note= 5\n"},
           diagnostics);
  CHECK(test::text(diagnostics).empty());
  const auto data = document.section("data");
  CHECK(look(data, "turn") == R"("<{role}>{content}<end>\n" @ command line)");
  CHECK(look(data, "user_turn") == R"(" USER: {content}" @ command line)");
  CHECK(look(data, "system_turn") == R"("\n\t{content} " @ command line)");
  CHECK(look(data, "assistant_turn") == R"("{content}\n" @ command line)");
  CHECK(look(document.section("run"), "name") == R"("my run " @ command line)");
  CHECK(look(document.section("train"), "max_steps") == "250 @ command line");
  CHECK(look(document.section("train"), "lr") == "1e-04 @ command line");
  CHECK(look(document.children("strategy").at(0), "targets") == R"(["a", "b"] @ command line)");
  CHECK(document.section("run").find("note")->text == " 5\n");  // what a string option takes
}

TEST_CASE("an override with nothing after '=' unsets what files and earlier overrides say") {
  const test::WorkingFolder folder;
  folder.write("base.toml",
               "[train]\naccumulation = 4\n[strategy.fsdp]\nmode = \"no_shard\"\n[model]\nrope.theta = 2\n");
  folder.write("a.toml", "extends = \"base.toml\"\n[train]\nmax_steps = 1\n");
  Diagnostics diagnostics;
  const auto document = load("a.toml",
                             {"train.accumulation=", "strategy.fsdp.mode= ", "model.rope=", "train.max_steps=7",
                              "train.max_steps=", "train.epochs=2"},
                             diagnostics);
  CHECK(test::text(diagnostics).empty());
  CHECK(look(document.section("train"), "accumulation") == "");
  CHECK(look(document.section("train"), "max_steps") == "");
  CHECK(look(document.section("train"), "epochs") == "2 @ command line");
  CHECK(document.section("model").entries.empty());
  REQUIRE(document.children("strategy").size() == 1);  // the table stays, and so does its strategy
  CHECK(document.children("strategy")[0].entries.empty());
}

TEST_CASE("an override that unsets what nothing sets is a fault, and switches nothing on") {
  CHECK(faults("[train]\naccumulation = 4\n", {"train.acumulation="}) ==
        "command line: train.acumulation= unsets an option that nothing sets\n"
        "    fix: leave it out; an empty text is train.acumulation='\"\"'\n");
  CHECK_THAT(faults("[train]\naccumulation = 4\n", {"strategy.fsdp.mode="}), Contains("that nothing sets"));
}

TEST_CASE("an override may switch on a plugin that no file names") {
  const test::WorkingFolder folder;
  folder.write("a.toml", "");
  Diagnostics diagnostics;
  const auto document = load("a.toml", {"strategy.fsdp.mode=no_shard"}, diagnostics);
  REQUIRE(document.children("strategy").size() == 1);
  CHECK(document.children("strategy")[0].path == "strategy.fsdp");
}

TEST_CASE("a plugin's table without its group") {
  const auto said = faults("[lora]\nrank = 8\n");
  CHECK_THAT(said, Contains("a.toml:1: unknown table [lora]\n    fix: one of: "));
  CHECK_THAT(said, Contains("; a strategy's table is written [strategy.lora], a monitor's [monitor.lora]\n"));
}

TEST_CASE("a fault about a name that is unknown carries the name, and a table's those of its options") {
  const test::WorkingFolder folder;
  folder.write("a.toml", "lr = 1\n[trainer]\nmax_steps = 250\n[trainer.strategy]\nsize = 2\n[train]\nx = 1\n");
  Diagnostics diagnostics;
  load("a.toml", {"steps=3", "optim.lr=1"}, diagnostics);
  const auto& list = diagnostics.list();
  REQUIRE(list.size() == 4);
  CHECK(list[0].unknown_option == "steps");
  CHECK(list[1].unknown_option == "lr");
  CHECK((list[1].unknown_table.empty() && list[1].inside.empty()));
  CHECK((list[2].unknown_option.empty() && list[2].unknown_table == "trainer"));
  REQUIRE(list[2].inside.size() == 2);
  CHECK(list[2].inside[0].text() == "a.toml:3: unknown option trainer.max_steps");
  CHECK(list[2].inside[1].unknown_option == "trainer.strategy.size");
  CHECK((list[3].unknown_option == "optim.lr" && list[3].unknown_table == "optim" && list[3].inside.empty()));
}

}  // namespace document_test
