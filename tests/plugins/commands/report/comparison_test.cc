// What differs between runs, which of them is the best, and what forbids to compare them.
#include "plugins/commands/report/comparison.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <chrono>
#include <filesystem>

#include "plugins/commands/report/rows.h"
#include "plugins/commands/report/tables.h"
#include "support/run_folders.h"

namespace comparison_test {

using namespace report;
using namespace runs;
using namespace test;
using capstan::cat;

namespace {

// Lines of `count` steps.
std::string steps(int count, int samples, double loss, int of = 0) {
  std::string lines;
  for (int step = 0; step < count; ++step) {
    lines += cat("{\"step\":", step, of > 0 ? cat(",\"steps\":", of) : "", ",\"loss\":", loss, ",\"samples\":", samples,
                 ",\"step_time_s\":1}\n");
  }
  return lines;
}

// A run that has not ended.
std::string open_run(const Folder& folder, const std::string& name, const std::string& lines) {
  folder.write(name + "/config.toml", "[train]\nmicro_batch = 4\n");
  folder.write(name + "/metrics.jsonl", lines);
  return (folder / name).string();
}

}  // namespace

TEST_CASE("what differs is a column of its own, and the best run is marked") {
  const test::Folder folder;
  const auto a = make_run(folder, "a", {1, 1, 100, "[optimizer]\nlr = 1e-3\n[run]\nname = \"a\"\n"});
  const auto b =
      make_run(folder, "b", {1, 1, 100, "[optimizer]\nlr = 5e-4\nschedule = \"cosine\"\n[run]\nname = \"b\"\n"});
  folder.write("b/metrics.jsonl", "{\"step\":4,\"epoch\":2,\"split\":\"eval\",\"loss\":1.25}\n");
  const auto table = fill_table("runs", read_runs({a, b}));
  REQUIRE(table.head.size() > 4);
  CHECK(Row(table.head.begin(), table.head.begin() + 5) == Row{"Run", "GPUs", "lr", "schedule", "Eval Loss (Final)"});
  CHECK(texts(table.rows[0])[2] == "0.001");
  CHECK(texts(table.rows[0])[3] == "not set");
  CHECK(texts(table.rows[1])[3] == "cosine");
  CHECK(table.best == 1);
  CHECK_THAT(text_of(table), Contains("b (best)  1     0.0005") && Contains("Best: b, the lowest Eval Loss (Final)"));
  CHECK_THAT(text_of(table), Contains("No run has EM, F1, Steps/s: no question was answered"));
  CHECK_FALSE(fill_table("fsdp-scaling", read_runs({a, b})).best);
}

TEST_CASE("no run is the best of runs on different data, of one, or of two that learned the same") {
  const test::Folder folder;
  const auto a = make_run(folder, "a");
  const auto same = make_run(folder, "same");
  const auto other = make_run(folder, "other", {1, 1, 100, "[data]\ntrain = \"other.json\"\n"});
  folder.write("other/metrics.jsonl", "{\"step\":4,\"epoch\":2,\"split\":\"eval\",\"loss\":1.25}\n");
  CHECK_FALSE(best_of(read_runs({a})));
  CHECK_FALSE(best_of(read_runs({a, same})));
  CHECK_FALSE(best_of(read_runs({a, other})));
}

TEST_CASE("where a run was not evaluated, the loss that all of them have decides") {
  const test::Folder folder;
  const auto a = open_run(folder, "a", steps(3, 4, 2.5));
  const auto b = open_run(folder, "b", steps(3, 4, 2.25));
  const auto best = best_of(read_runs({a, b}));
  REQUIRE(best);
  CHECK(best->place == 1);
  CHECK(best->why == "the lowest Last Loss");
}

TEST_CASE("options with one key are called by their tables, and places are no difference") {
  const test::Folder folder;
  const auto a = make_run(
      folder, "a",
      {1, 1, 100, "[data]\ncache = \"x\"\nseed = 1\n[run]\nname = \"a\"\nseed = 1\n[monitor.csv]\nevery = 1\n"});
  const auto b = make_run(folder, "b", {1, 1, 100, "[data]\ncache = \"y\"\nseed = 2\n[run]\nseed = 2\n"});
  CHECK(differing_options(read_runs({a, b})) == Row{"data.seed", "run.seed"});
  const auto head = fill_table("runs", read_runs({a, b})).head;
  CHECK(Row(head.begin() + 2, head.begin() + 4) == Row{"data.seed", "run.seed"});
}

TEST_CASE("of many differences four have columns, and others are named") {
  const test::Folder folder;
  std::string one = "[model]\n", two = "[model]\n";
  for (char key = 'a'; key < 'n'; ++key) {
    one += cat(key, " = 1\n");
    two += cat(key, " = 2\n");
  }
  const auto table =
      fill_table("runs", read_runs({make_run(folder, "one", {1, 1, 9, one}), make_run(folder, "two", {1, 1, 9, two})}));
  CHECK(Row(table.head.begin() + 2, table.head.begin() + 7) == Row{"a", "b", "c", "d", "Eval Loss (Final)"});
  CHECK_THAT(text_of(table), Contains("Differ too: model.e, model.f, model.g, model.h, model.i, model.j and 3 more"));
}

TEST_CASE("runs of unequal length are warned of; as many samples in fewer steps are as long") {
  const test::Folder folder;
  const auto whole = open_run(folder, "whole", steps(100, 4, 2, 100));
  const auto half = open_run(folder, "half", steps(50, 4, 2, 100));
  const auto wide = open_run(folder, "wide", steps(50, 8, 2));
  const auto dropped = open_run(folder, "dropped", steps(99, 4, 2));
  CHECK(fill_table("runs", read_runs({whole, wide, dropped})).warnings.empty());
  const auto table = fill_table("runs", read_runs({whole, half, wide}));
  CHECK(table.warnings == Row{"runs of unequal length: half took 50 steps, whole 100; their losses do not compare"});
  CHECK_THAT(text_of(table), Contains("half: step 50 of 100, it did not reach its end"));
}

TEST_CASE("a run under way says where it stands, and one that was killed says so") {
  const test::Folder folder;
  const auto path = open_run(folder, "a", steps(3, 4, 2, 8));
  const auto file = folder.write("a/running", R"({"host": "n2", "pid": 77, "machine": "other"})");
  CHECK(progress_of(read_runs({path})[0]) == "a: step 3 of 8, under way");
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - std::chrono::minutes(10));
  CHECK(progress_of(read_runs({path})[0]) == "a: step 3 of 8, killed: process 77 on n2 is gone");
  make_run(folder, "b");
  CHECK(progress_of(read_runs({(folder / "b").string()})[0]).empty());
}

}  // namespace comparison_test
