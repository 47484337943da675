// What cells say of runs, as tables show them.
#include "plugins/commands/report/cells.h"

#include <capstan_catch.h>

#include "plugins/commands/report/rows.h"
#include "plugins/commands/report/tables.h"
#include "support/run_folders.h"

namespace cells_test {

using namespace report;
using namespace runs;
using namespace test;

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
        Row{"2", "8", "01:02:05", "1.000", "1.5000", "3000", "1600.20", "1000 (40 %)", "1.00", "1.00", "1.50"});
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

}  // namespace cells_test
