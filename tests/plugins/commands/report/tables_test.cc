#include "plugins/commands/report/tables.h"

#include <capstan_catch.h>

#include "plugins/commands/report/rows.h"
#include "support/errors.h"
#include "support/run_folders.h"

namespace tables_test {

using namespace report;
using namespace runs;
using namespace test;

TEST_CASE("FSDP scaling compares with the smallest run, whatever the order") {
  const test::Folder folder;
  const auto two = make_run(folder, "two", {2, 1, 50});
  const auto one = make_run(folder, "one", {1, 1, 100});
  const auto nodes = make_run(folder, "nodes", {4, 2, 20});
  const auto table = fill_table("fsdp-scaling", read_runs({two, one, nodes}));
  CHECK(table.head == Row{"Setup", "Total GPUs", "Samples/s", "Samples/s Scale Factor", "Runtime (s)",
                          "Runtime Scale Factor", "Loss", "GPU Memory Allocated (GB)"});
  REQUIRE(table.rows.size() == 3);
  CHECK(texts(table.rows[0]) ==
        Row{"Single Node, Single GPU", "1", "0.400", "1.00", "100.00", "1.00", "3.0000", "2.00"});
  CHECK(texts(table.rows[1]) == Row{"Single Node, 2 GPUs", "2", "0.800", "2.00", "50.00", "2.00", "3.0000", "2.00"});
  CHECK(texts(table.rows[2]) == Row{"2 Node", "4", "2.000", "5.00", "20.00", "5.00", "3.0000", "2.00"});
  CHECK_THAT(text_of(table), Contains("Samples/s a GPU: one 0.400, two 0.400, nodes 0.500") &&
                                 Contains("Loss of the last step: one 1.5000") &&
                                 Contains("Base, which the others are compared with: one"));
}

TEST_CASE("the base is the run that was asked for, by its name or its folder") {
  const test::Folder folder;
  const auto one = make_run(folder, "one", {1, 1, 100});
  const auto two = make_run(folder, "two", {2, 1, 50});
  const auto runs = read_runs({two, one});
  CHECK(base_of(runs).name == "one");
  for (const auto& base : {std::string("two"), two, two + "/"}) {
    const auto table = fill_table("fsdp-scaling", runs, base);
    CHECK(table.rows[0][3].text == "0.50");
    CHECK(table.rows[1][3].text == "1.00");
    CHECK_THAT(text_of(table), Contains("Base, which the others are compared with: two"));
  }
  CHECK(fill_table("nemo-scaling", runs, "two").head[8] == "Time scaling vs 2 GPU");
  CHECK_THAT(test::error_of([&] { fill_table("fsdp-scaling", runs, "tow"); }),
             Contains("--base tow: none of these runs") && Contains("did you mean 'two'?"));
}

TEST_CASE("rates in notes have the name of the column whose definition they share") {
  const test::Folder folder;
  const auto runs = read_runs({make_run(folder, "a", {2, 1, 100})});
  CHECK_THAT(text_of(fill_table("weak-layers", runs)),
             Contains("Samples/s (Callback) a GPU: a 5.000") && !Contains("Samples/s a GPU"));
  CHECK_THAT(text_of(fill_table("custom-model", runs)),
             Contains("Samples/s (Callback) a GPU: a 5.000") && Contains("Samples/s a GPU: a 0.200"));
}

TEST_CASE("a table that mixes models, data or batch sizes says so") {
  const test::Folder folder;
  const std::string batch = "global_batch = 16\n";
  const auto bloom = make_run(folder, "fsdp-weak", {2, 1, 9, batch + "[model]\nplugin = \"gpt\"\nnum_layers = 3\n"});
  const auto deeper = make_run(folder, "deeper", {4, 1, 9, batch + "[model]\nplugin = \"gpt\"\nnum_layers = 6\n"});
  const auto zero = make_run(folder, "zero-weak",
                             {2, 1, 9,
                              "global_batch = 32\n[model]\nplugin = \"bloom\"\n"
                              "[data]\nloss = \"sequence\"\n"});
  const auto alike = fill_table("weak-layers", read_runs({bloom, deeper}));
  CHECK(alike.warnings.empty());  // layers are to grow
  const auto mixed = fill_table("weak-layers", read_runs({bloom, deeper, zero}));
  CHECK(mixed.warnings == std::vector<std::string>{
                              R"(the table mixes models: in zero-weak model.plugin is "bloom", in fsdp-weak "gpt")",
                              R"(the table mixes data: in zero-weak data.loss is "sequence", in fsdp-weak not set)"});
  CHECK_THAT(text_of(mixed), Contains("  Warning: the table mixes models: in zero-weak"));
  CHECK_THAT(html_of(mixed), Contains("<li>Warning: the table mixes data: "));
  CHECK(fill_table("runs", read_runs({bloom, deeper})).warnings ==
        std::vector<std::string>{"the table mixes models: in deeper model.num_layers is 6, in fsdp-weak 3"});
  // A rank's batch or that of all ranks is the base's; else neither speeds nor losses compare.
  folder.write("other/config.toml", "[train]\nmicro_batch = 1\naccumulation = 4\nglobal_batch = 8\n");
  folder.write("first/config.toml", "[train]\nmicro_batch = 4\naccumulation = 4\nglobal_batch = 16\n");
  folder.write("third/config.toml", "[train]\nmicro_batch = 2\naccumulation = 4\nglobal_batch = 16\n");
  const auto path = [&](const char* name) { return (folder / name).string(); };
  CHECK(fill_table("runs", read_runs({path("first"), path("third")})).warnings.empty());
  CHECK(fill_table("runs", read_runs({path("first"), path("other"), path("third")})).warnings ==
        std::vector<std::string>{"the table mixes batch sizes: in other train.global_batch is 8, in first 16"});
}

TEST_CASE("every table can be filled from a run that has only begun") {
  const test::Folder folder;
  folder.write("new/config.toml", "[train]\nmicro_batch = 1\n");
  const auto runs = read_runs({(folder / "new").string()});
  REQUIRE(table_names().size() == 12);
  for (const auto& name : table_names()) {
    const auto table = fill_table(name, runs);
    for (const auto& row : table.rows) CHECK(row.size() == table.head.size());
    CHECK_THAT(text_of(table), Contains("-[1]") || Contains("No run has Eval Loss (Final), "));
  }
  CHECK_THAT(test::error_of([&] { fill_table("weak-layer", runs); }),
             Contains("there is no table 'weak-layer'") && Contains("did you mean 'weak-layers'?"));
}

}  // namespace tables_test
