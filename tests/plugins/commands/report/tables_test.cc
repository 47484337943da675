#include "plugins/commands/report/tables.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <algorithm>

#include "support/errors.h"
#include "support/run_folders.h"

using namespace report;
using namespace runs;
using namespace test;

namespace {

std::vector<std::string> texts(const std::vector<Cell>& row) {
  std::vector<std::string> out;
  for (const auto& one : row) out.push_back(one.missing.empty() ? one.text : "-");
  return out;
}

using Row = std::vector<std::string>;

}  // namespace

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

TEST_CASE("weak scaling has the workshop's efficiency and the usual one, and says which is which") {
  const test::Folder folder;
  const auto base = make_run(folder, "w2", {2, 1, 100, "[model]\nnum_layers = 3\n"});
  const auto next = make_run(
      folder, "w4", {4, 1, 125, "[model]\nnum_layers = 6\n", R"("avg_mem_alloc_MB":2048,"avg_gpu_util_%":91.26,)"});
  const auto table = fill_table("weak-layers", read_runs({base, next}));
  CHECK(texts(table.rows[0]) ==
        Row{"2", "3", "4", "1,234,567", "10.000", "-", "-", "3.0000", "100.00", "100.0", "100.0"});
  CHECK(texts(table.rows[1]) ==
        Row{"4", "6", "4", "1,234,567", "10.000", "2.00", "91.3", "3.0000", "125.00", "125.0", "80.0"});
  CHECK_THAT(text_of(table), Contains("Efficiency is the workshop's formula, T_N / T_base") &&
                                 Contains("Usual Efficiency is T_base / T_N") && Contains("-[1]") &&
                                 Contains("[1] summary.json has no such mean: [monitor.utilisation]"));
}

TEST_CASE("GPU 0 is that of rank 0's host, and a run on CPUs has none") {
  const test::Folder folder;
  const auto gpu = make_run(folder, "gpu", {2, 1, 3725});
  add_gpu_logs(folder, "gpu");
  const auto cpu = make_run(folder, "cpu", {4, 1, 50, "[run]\ndevice = \"cpu\"\n", "", true});
  const auto table = fill_table("nemo-scaling", read_runs({gpu, cpu}));
  CHECK(table.head[8] == "Time scaling vs 2 GPU");
  CHECK(table.head[9] == "Peak memory scaling vs 2 GPU");
  CHECK(texts(table.rows[0]) ==
        Row{"2", "8", "01:02:05", "1.000", "1.5000", "3000", "1600.20", "1000, 3000", "1.00", "1.00", "1.50"});
  CHECK(texts(table.rows[1]) == Row{"4", "8", "00:00:50", "1.000", "1.5000", "-", "-", "-", "74.50", "-", "1.50"});
  CHECK(table.rows[1][5].missing == "the run computed on CPUs");
}

TEST_CASE("a baseline's values come with their places; what was not evaluated has no value") {
  const test::Folder folder;
  const auto path = make_run(folder, "a");
  const auto table = fill_table("baseline", read_runs({path}));
  CHECK(table.head == Row{"Metric", "Log Location & Extraction", "Your Value"});
  CHECK(texts(table.rows[1]) == Row{"Eval Loss (Epoch 1)", "metrics.jsonl: loss of the split eval, epoch 1", "1.2500"});
  CHECK(texts(table.rows[2]).back() == "1.5000");  // 1.93 epochs, as after a dropped batch
  CHECK(table.rows[3].back().missing == "the run was not evaluated there");
  CHECK(texts(table.rows[5]).back() == "25.000");
  CHECK(table.rows[9].back().missing.starts_with("no question was answered"));
  folder.write("a/metrics.jsonl",
               "{\"step\":2,\"split\":\"eval\",\"f1\":12.5,\"exact_match\":0.0}\n"
               "{\"step\":4,\"split\":\"eval\",\"f1\":14.0,\"exact_match\":2.0}\n");
  const auto scored = fill_table("baseline", read_runs({path}));
  CHECK(texts(scored.rows[9]) ==
        Row{"EM (%), each epoch", "metrics.jsonl: exact_match of the split eval", "0.00, 2.00"});
  CHECK(texts(scored.rows[10]).back() == "12.50, 14.00");
  make_run(folder, "a");
  const auto zero = fill_table("zero-baseline", read_runs({path}));
  CHECK(zero.head == Row{"Category", "Metric", "Extraction Instruction", "Your Value"});
  CHECK(texts(zero.rows[3]) == Row{"Training Metrics", "Eval Loss (Final)", "the same, the last one", "1.5000"});
}

TEST_CASE("tables of metrics have a column a run") {
  const test::Folder folder;
  const auto one = make_run(folder, "s1", {2, 1, 50, "[strategy.zero]\nstage = 1\n"});
  const auto three = make_run(
      folder, "s3", {2, 1, 40, "[strategy.zero]\nstage = 3\noffload_optimizer = \"cpu\"\npin_memory = true\n"});
  add_gpu_logs(folder, "s3");
  folder.write("s3/cpu_memory/cpu_node7.txt", "0 0 10.4 20\n1 0 10.3 20\n2 0 12.0 20\n");
  const auto table = fill_table("zero-comparison", read_runs({one, three}));
  CHECK(table.head == Row{"Metric", "ZeRO Stage 1", "ZeRO Stage 3 + Offloading (pinned)"});
  CHECK(texts(table.rows[0])[1] == "capstan run " + one + "/config.toml -n 2");
  CHECK(texts(table.rows[1]) == Row{"Train Samples/sec", "0.800", "1.000"});
  CHECK(texts(table.rows[3]) == Row{"Peak GPU Memory (MiB)", "-", "3000"});
  CHECK(texts(table.rows[6]) == Row{"Peak CPU Memory (MiB)", "-", "12"});
  CHECK(texts(table.rows[8]) == Row{"Mode for CPU Memory (MiB)", "-", "10"});
  CHECK(fill_table("zero-scaling", read_runs({one, three})).head == Row{"Metric", "2 GPUs (s1)", "2 GPUs (s3)"});
  const auto strategies = fill_table("fsdp-scaling", read_runs({one, three}));
  CHECK(strategies.rows[1][0].text == "Single Node, 2 GPUs (s3)");
  const auto nodes = fill_table("zero-nodes", read_runs({three}));
  CHECK(texts(nodes.rows[3]) == Row{"Peak GPU Memory (GiB)", "2.93"});
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

TEST_CASE("tables of data that grows have what document 004 asks for, and the efficiency") {
  const test::Folder folder;
  const auto two = make_run(folder, "w2", {2, 1, 100, "[data]\ntrain_samples = 500\n", R"("steps":20,)"});
  const auto four = make_run(folder, "w4", {4, 1, 125, "[data]\ntrain_samples = 1000\n", R"("steps":20,)"});
  for (const auto* name : {"zero-scaling", "zero-nodes"}) {
    const auto table = fill_table(name, read_runs({two, four}));
    REQUIRE(table.rows.size() == 11);
    CHECK(texts(table.rows[6]) == Row{"Train Runtime (s)", "100.00", "125.00"});
    CHECK(texts(table.rows[7]) == Row{"Steps/s", "0.200", "0.160"});
    CHECK(texts(table.rows[8]) == Row{"Eval Loss (Final)", "1.5000", "1.5000"});
    CHECK(texts(table.rows[9]) == Row{"Eval Samples/sec", "25.000", "25.000"});
    CHECK(texts(table.rows[10]) == Row{"Usual Efficiency (%)", "100.0", "80.0"});
    CHECK(table.warnings.empty());  // the data is to grow
  }
  const auto runs = fill_table("runs", read_runs({two}));
  for (const auto* head : {"Steps/s", "Runtime (s)", "Eval Samples/sec"})
    CHECK(std::count(runs.head.begin(), runs.head.end(), head) == 1);
}

TEST_CASE("rates in notes have the name of the column whose definition they share") {
  const test::Folder folder;
  const auto runs = read_runs({make_run(folder, "a", {2, 1, 100})});
  CHECK_THAT(text_of(fill_table("weak-layers", runs)),
             Contains("Samples/s (Callback) a GPU: a 5.000") && !Contains("Samples/s a GPU"));
  CHECK_THAT(text_of(fill_table("custom-model", runs)),
             Contains("Samples/s (Callback) a GPU: a 5.000") && Contains("Samples/s a GPU: a 0.200"));
}

TEST_CASE("runs on CPUs have a column for memory, and a table of only GPUs has none") {
  const test::Folder folder;
  const auto cpu = read_runs({make_run(folder, "cpu", {2, 1, 100, "[run]\ndevice = \"cpu\"\n", "", true})});
  const auto gpu = read_runs({make_run(folder, "gpu", {2, 1, 100})});
  for (const auto* name : {"runs", "fsdp-scaling", "nemo-scaling", "weak-layers"}) {
    const auto table = fill_table(name, cpu);
    CHECK(table.head.back() == "Host Memory (GB)");
    CHECK(table.rows[0].back().text == "1.50");
    const auto others = fill_table(name, gpu).head;
    CHECK(std::count(others.begin(), others.end(), "Host Memory (GB)") == 0);
  }
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
  REQUIRE(table_names().size() == 11);
  for (const auto& name : table_names()) {
    const auto table = fill_table(name, runs);
    for (const auto& row : table.rows) CHECK(row.size() == table.head.size());
    CHECK_THAT(text_of(table), Contains("-[1]"));
  }
  CHECK_THAT(test::error_of([&] { fill_table("weak-layer", runs); }),
             Contains("there is no table 'weak-layer'") && Contains("did you mean 'weak-layers'?"));
}
