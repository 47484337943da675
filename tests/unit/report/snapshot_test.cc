#include "report/snapshot.h"

#include <capstan_catch.h>

#include <filesystem>

#include "report/run_folders.h"

using namespace capstan::report;
using namespace report_test;
using Catch::Matchers::Contains;

TEST_CASE("a line of blocks follows the values") {
  CHECK(sparkline({1, 2, 3, 8}, 10) == "▁▂▃█");
  CHECK(sparkline({5, 5}, 10) == "▁▁");
  CHECK(sparkline({0, 2, 9, 9}, 2) == "▁█");
  CHECK(sparkline({}, 4).empty());
}

TEST_CASE("a running job is followed line by line") {
  const test::Folder folder;
  const auto path = make_run(folder, "a", {2, 1, 10, "max_steps = 8\n"});
  std::filesystem::remove(folder / "a/summary.json");
  const std::string first = R"({"step":0,"epoch":0,"loss":4.0,"lr":1,"samples":10,"step_time_s":2.0})"
                            "\n";
  const std::string second = R"({"step":1,"epoch":0,"loss":2.0,"lr":1,"samples":10,"step_time_s":2.0})"
                             "\n";
  folder.write("a/metrics.jsonl", first + second.substr(0, 20));
  RunWatch watch(path);
  CHECK_THAT(snapshot_text(watch.now(), 80),
             Contains("step 1/8 (12 %), epoch 0, 0:14 left") || Contains("step 1/8 (13 %)"));
  folder.write("a/metrics.jsonl", first + second);
  add_gpu_logs(folder, "a");
  const auto text = snapshot_text(watch.now(), 80);
  CHECK(watch.now().steps.size() == 2);
  CHECK_THAT(text, Contains("run a: 2 ranks on 1 node\nstep 2/8 (25 %), epoch 0, 0:12 left\n") &&
                       Contains("loss 2.0000, mean of the last 2 3.0000\n  █▁\n") &&
                       Contains("samples/s 5.000 (2.500 a rank), 2.000 s a step") &&
                       Contains("gpu_memory_log_node7  1000 MiB    3000 MiB"));
  folder.write("a/metrics.jsonl", first);  // resumed from a checkpoint
  CHECK(watch.now().steps.size() == 1);
}

TEST_CASE("a run without a step, and one that has ended") {
  const test::Folder folder;
  folder.write("new/config.toml", "[train]\nmicro_batch = 1\n");
  CHECK_THAT(snapshot_text(RunWatch(folder / "new").now(), 80),
             Contains("no step is done yet\nGPU memory is not logged"));
  const auto path = make_run(folder, "a", {1, 1, 10, "", R"("steps":4,)"});
  CHECK_THAT(snapshot_text(RunWatch(path).now(), 80),
             Contains("step 4/4 (100 %), epoch 0, ended\n") && Contains("evaluation after step 4: loss 1.5000"));
}
