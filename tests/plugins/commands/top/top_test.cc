#include "plugins/commands/top/snapshot.h"

#include <capstan_catch.h>

#include <filesystem>

#include "support/run_folders.h"

using namespace top;
using namespace test;
using capstan::record::HolderSeen;
using State = HolderSeen::State;

namespace {

// What it shows while the run lives.
std::string live_text(const runs::Run& run) { return snapshot_text(run, 80, {State::lives, "process 4711 on node7"}); }

}  // namespace

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
  CHECK_THAT(live_text(watch.now()), Contains("step 1/8 (12 %), epoch 0, 0:14 left"));
  folder.write("a/metrics.jsonl", first + second);
  add_gpu_logs(folder, "a");
  const auto text = live_text(watch.now());
  CHECK(watch.now().steps.size() == 2);
  CHECK_THAT(text, Contains("run a: 2 ranks on 1 node\nstep 2/8 (25 %), epoch 0, 0:12 left\n") &&
                       Contains("loss 2.0000, mean of the last 2 3.0000\n  █▁\n") &&
                       Contains("samples/s 5.000 (2.500 a rank), 2.000 s a step") &&
                       Contains("gpu_memory_log_node7  1000 MiB    3000 MiB"));
  folder.write("a/metrics.jsonl", first);  // resumed from a checkpoint
  CHECK(watch.now().steps.size() == 1);
}

TEST_CASE("the slowest rank is the one that the others wait for longest, over the last steps that say so") {
  const test::Folder folder;
  const auto path = make_run(folder, "a", {2, 1, 10, "max_steps = 8\n"});
  folder.write("a/launch.json", R"({"world_size":2,"nodes":2,"ranks":[{"host":"node3"},{"host":"node7"}]})");
  std::string lines;
  const auto add = [&](int step, const std::string& more) {
    lines += R"({"step":)" + std::to_string(step) + R"(,"loss":4.0,"samples":10,"step_time_s":2.0)" + more + "}\n";
  };
  add(0, "");
  folder.write("a/metrics.jsonl", lines);
  CHECK_THAT(live_text(RunWatch(path).now()), !Contains("slowest"));
  add(1, R"(,"slowest_rank":0,"slowest_rank_wait_s":0.05)");
  add(2, R"(,"slowest_rank":0,"slowest_rank_wait_s":0.05)");
  add(3, R"(,"slowest_rank":1,"slowest_rank_wait_s":0.5)");
  add(4, R"(,"slowest_rank":0,"slowest_rank_wait_s":0.1)");
  folder.write("a/metrics.jsonl", lines);
  CHECK_THAT(
      live_text(RunWatch(path).now()),
      Contains("slowest rank 1 on node7: the others wait 125.0 ms a step for it (6.2 %); it was the slowest in 1 "
               "of the last 4 steps\n"));
  for (int step = 5; step < 25; ++step) add(step, R"(,"slowest_rank":0,"slowest_rank_wait_s":0.01)");
  folder.write("a/metrics.jsonl", lines);
  CHECK_THAT(live_text(RunWatch(path).now()), Contains("slowest rank 0 on node3: the others wait 10.0 ms"));
}

TEST_CASE("all steps are those that the run itself says, with the time that is left") {
  const test::Folder folder;
  const auto path = make_run(folder, "a", {1, 1, 10, "epochs = 3\n"});
  std::filesystem::remove(folder / "a/summary.json");
  folder.write("a/metrics.jsonl", R"({"step":0,"steps":12,"epoch":0,"loss":4.0,"samples":10,"step_time_s":2.0})"
                                  "\n");
  CHECK_THAT(live_text(RunWatch(path).now()), Contains("step 1/12 (8 %), epoch 0, 0:22 left\n"));
}

TEST_CASE("a run that was killed does not look like one that still runs") {
  const test::Folder folder;
  const auto path = make_run(folder, "a", {1, 1, 10, "max_steps = 8\n"});
  std::filesystem::remove(folder / "a/summary.json");
  RunWatch watch(path);
  const auto& run = watch.now();
  const HolderSeen killed{State::gone, "process 4711 on node7"};
  CHECK_THAT(snapshot_text(run, 80, killed),
             Contains("step 4/8 (50 %), epoch 0, killed: process 4711 on node7 is gone\n"));
  CHECK_THAT(snapshot_text(run, 80, {State::lives, "process 4711 on node7"}), Contains("(50 %), epoch 0, 0:08 left\n"));
  CHECK_THAT(snapshot_text(run, 80, {State::none, ""}),
             Contains("epoch 0, ended before its last step: logs/rank-0.log"));
  folder.write("new/config.toml", "[train]\nmicro_batch = 1\n");
  CHECK_THAT(snapshot_text(RunWatch(folder / "new").now(), 80, killed),
             Contains("no step is done, killed: process 4711"));
}

TEST_CASE("a run without a step, and one that has ended") {
  const test::Folder folder;
  folder.write("new/config.toml", "[train]\nmicro_batch = 1\n");
  CHECK_THAT(live_text(RunWatch(folder / "new").now()),
             Contains("no step is done yet\n") && !Contains("GPU memory is not logged"));
  folder.write("gpus/config.toml", "[run]\ndevice = \"cuda\"\n");
  CHECK_THAT(live_text(RunWatch(folder / "gpus").now()),
             Contains("no step is done yet\nGPU memory is not logged: add"));
  const auto path = make_run(folder, "a", {1, 1, 10, "", R"("steps":4,)"});
  CHECK_THAT(snapshot_text(RunWatch(path).now(), 80, {}),
             Contains("step 4/4 (100 %), epoch 0, ended\n") && Contains("evaluation after step 4: loss 1.5000"));
}
