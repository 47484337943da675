// Which columns and lines a table has.
#include "plugins/commands/report/kinds.h"

#include <capstan_catch.h>

#include <algorithm>

#include "plugins/commands/report/rows.h"
#include "plugins/commands/report/tables.h"
#include "support/run_folders.h"

namespace kinds_test {

using namespace report;
using namespace runs;
using namespace test;

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
  CHECK(texts(table.rows[8]) == Row{"Mode for CPU Memory (MiB)", "-", "10 (67 %)"});
  CHECK(fill_table("zero-scaling", read_runs({one, three})).head == Row{"Metric", "2 GPUs (s1)", "2 GPUs (s3)"});
  const auto strategies = fill_table("fsdp-scaling", read_runs({one, three}));
  CHECK(strategies.rows[1][0].text == "Single Node, 2 GPUs (s3)");
  const auto nodes = fill_table("zero-nodes", read_runs({three}));
  CHECK(texts(nodes.rows[3]) == Row{"Peak GPU Memory (GiB)", "2.93"});
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

TEST_CASE("a table has the phases of the start, and the first step") {
  const test::Folder folder;
  const auto run = make_run(folder, "a", {1, 1, 100, "", R"("start_s":{"engine":1.25,"data":0.5,"parameters":30},)"});
  const auto table = fill_table("start", read_runs({run}));
  REQUIRE(table.rows.size() == 1);
  CHECK(table.head == Row{"Run", "GPUs", "Engine", "Device", "Ranks", "Configuration", "Data", "Prediction",
                          "Token Caches", "Pre-flight", "Groups", "Parameters", "Loop", "First Step"});
  const auto row = texts(table.rows[0]);
  CHECK(row[2] == "1.25");
  CHECK(row[6] == "0.50");
  CHECK(row[11] == "30.00");
  CHECK(row[13] == "5.00");
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

}  // namespace kinds_test
