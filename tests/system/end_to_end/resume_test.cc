// Checkpoints and resume through the program: ranks that are processes, killed, stopped, started again.
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <algorithm>
#include <csignal>
#include <fstream>
#include <thread>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace resume_test {

using namespace end_to_end;
using capstan::cat;
using capstan::ExitCode;

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds limit(120);

// Three ranks of a sharded run with dropout that saves every second step; rank 1 hangs after step 5 where the probe is
// on.
std::string config(const std::string& more = {}) {
  return small_config(
      {{"dropout", "dropout = 0.1"}},
      cat("[strategy.fsdp]\nmode = \"full_shard\"\n[monitor.probe]\nrank = 1\nstep = 5\nhow = \"hang\"\n"
          "path = \"",
          fixture("monitor", "probe"), "\"\n[checkpoint]\nevery_steps = 2\nkeep = 0\n", more));
}

std::vector<std::string> arguments(const std::string& file, const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"run", file, "-n", "3", "run.deterministic=true", "monitor.probe.enabled=false"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

bool wait_for_file(const fs::path& file) {
  const auto deadline = std::chrono::steady_clock::now() + limit;
  while (!fs::exists(file)) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// What the numbers of an uninterrupted run are.
struct Series {
  std::vector<double> losses;
  std::vector<double> norms;
  std::vector<double> steps;
  std::vector<double> evaluations;
  bool operator==(const Series&) const = default;
};

Series series(const fs::path& run) {
  const auto metrics = read_metrics(run);
  Series all{metrics.all("loss"), metrics.all("grad_norm"), metrics.all("step"), {}};
  for (const auto& evaluation : metrics.evaluations) all.evaluations.push_back(evaluation.at("loss").get<double>());
  return all;
}

fs::path step_folder(const fs::path& run, int step) { return run / "checkpoints" / cat("step-0000000", step); }

// A run that was killed while rank 1 hung: checkpoints after steps 2 and 4.
void run_and_kill(const Workspace& work, const std::string& file) {
  Program program(work.folder(), {"run", file, "-n", "3", "run.deterministic=true"});
  REQUIRE(wait_for_file(step_folder(work.folder() / "runs/small", 4) / "manifest.json"));
  REQUIRE(program.wait_for("global_step: 5 "));
  const auto victim = program.rank(1);
  REQUIRE(victim > 0);
  REQUIRE(kill(victim, SIGKILL) == 0);
  const auto ended = program.wait(limit);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == 128 + SIGKILL);
}

void flip_a_byte(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    if (entry.path().extension() != ".safetensors") continue;
    std::fstream file(entry.path(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(-9, std::ios::end);
    const auto byte = static_cast<char>(file.get());
    file.seekp(-9, std::ios::end);
    file.put(static_cast<char>(byte ^ 16));
    return;
  }
}

}  // namespace

TEST_CASE("a run that was killed continues by itself and ends as one that was not") {
  const Workspace work;
  const auto file = work.write("a.toml", config());
  const auto straight = work.run(arguments(file, {"run.name=straight"}));
  INFO(straight.all());
  REQUIRE(straight.code == 0);
  run_and_kill(work, file);

  const auto resumed = work.run(arguments(file, {"checkpoint.resume=auto"}));
  INFO(resumed.all());
  REQUIRE(resumed.code == 0);
  const auto run = work.folder() / "runs/small";
  CHECK_THAT(resumed.out, Contains(cat("resuming from ", fs::path("runs/small/checkpoints/step-00000004").string())) ||
                              Contains(cat("resuming from ", step_folder(run, 4).string(), ", after step 4 of 8")));
  CHECK(resumed.err.empty());
  CHECK_FALSE(fs::exists(work.folder() / "runs/small-2"));
  CHECK(series(run) == series(work.folder() / "runs/straight"));
  CHECK(bit_equal(read_weights(run), read_weights(work.folder() / "runs/straight")));

  const auto mine = read_json(run / "summary.json");
  const auto theirs = read_json(work.folder() / "runs/straight/summary.json");
  for (const char* key : {"steps", "samples", "tokens", "first_loss", "last_loss", "train_loss"})
    CHECK(mine.at(key) == theirs.at(key));
  CHECK(mine.at("first_step") == 4);
  CHECK(mine.at("evaluations").size() == theirs.at("evaluations").size());
  // Each save is told of, with what it cost.
  const auto saves = read_metrics(work.folder() / "runs/straight").checkpoints;
  REQUIRE(saves.size() == 4);
  CHECK(saves[0].at("step") == 2);
  CHECK(saves[0].at("bytes").get<double>() > 0);
  CHECK(saves[0].at("stall_s").get<double>() > 0);
  CHECK(theirs.at("checkpoints").at("saves") == 4);
  CHECK_THAT(straight.out, Contains("Checkpoint after step 2: ") && Contains("training waited"));
  CHECK(fs::exists(step_folder(run, 8)));
}

TEST_CASE("a run that is started again after its end leaves the files that it had left") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({},
                                                      "[checkpoint]\nevery_steps = 2\nresume = \"auto\"\n"
                                                      "[monitor.csv]\n"));
  const std::string each = GENERATE("false", "true");
  const std::vector<std::string> line{"run",
                                      file,
                                      "train.max_steps=4",
                                      "train.generate_samples=2",
                                      "train.generate_train_samples=2",
                                      "train.max_new_tokens=3",
                                      "train.generate_each_eval=" + each};
  const auto run = work.folder() / "runs/small";
  const auto rows = [&] {
    std::vector<std::string> all;
    for (const auto& evaluation : read_metrics(run).evaluations)
      all.push_back(cat(evaluation.at("step"), evaluation.at("split"), evaluation.contains("loss")));
    std::sort(all.begin(), all.end());
    return all;
  };
  REQUIRE(work.run(line).code == 0);
  const auto first = rows();
  const auto table = std::ranges::count(capstan::read_file(run / "metrics.csv"), '\n');
  const auto evaluations = read_json(run / "summary.json").at("evaluations").size();
  const auto predictions = capstan::read_file(run / "predictions-eval.json");
  CHECK(first.size() == 3);
  for (const auto* left : {"summary.json.tmp4711", "checkpoints/latest.tmp4711"}) {
    capstan::write_file(run / left, "half");  // left by a process that was killed
  }
  for (int again = 0; again < 2; ++again) {
    const auto ended = work.run(line);
    INFO(ended.all());
    REQUIRE(ended.code == 0);
    CHECK(rows() == first);
    CHECK(std::ranges::count(capstan::read_file(run / "metrics.csv"), '\n') == table);
    CHECK(read_json(run / "summary.json").at("evaluations").size() == evaluations);
    CHECK(capstan::read_file(run / "predictions-eval.json") == predictions);
    CHECK_FALSE(fs::exists(run / "summary.json.tmp4711"));
    CHECK_FALSE(fs::exists(run / "checkpoints/latest.tmp4711"));
  }
}

TEST_CASE("a damaged checkpoint is passed over, loudly, and kept aside") {
  const Workspace work;
  const auto file = work.write("a.toml", config());
  const auto straight = work.run(arguments(file, {"run.name=straight"}));
  REQUIRE(straight.code == 0);
  run_and_kill(work, file);
  const auto run = work.folder() / "runs/small";
  flip_a_byte(step_folder(run, 4));

  const auto resumed = work.run(arguments(file, {"checkpoint.resume=auto"}));
  INFO(resumed.all());
  REQUIRE(resumed.code == 0);
  CHECK_THAT(resumed.err, Contains("a checkpoint is not valid: ") && Contains("step-00000004") &&
                              Contains("falling back: resuming from ") && Contains("after step 2") &&
                              Contains("moved to ") && Contains("damaged-step-00000004"));
  CHECK(fs::exists(run / "checkpoints/damaged-step-00000004/manifest.json"));
  CHECK(series(run) == series(work.folder() / "runs/straight"));

  // Without a valid one the run begins again, in its own folder all the same.
  for (const int step : {2, 4, 6, 8}) flip_a_byte(step_folder(run, step));
  const auto again = work.run(arguments(file, {"checkpoint.resume=auto"}));
  INFO(again.all());
  REQUIRE(again.code == 0);
  CHECK_THAT(again.err, Contains("no checkpoint of this run is valid: it starts from its beginning"));
  CHECK(series(run) == series(work.folder() / "runs/straight"));
}

TEST_CASE("a run continues from another's checkpoint, in a folder of its own and on other ranks") {
  const Workspace work;
  const auto file = work.write("a.toml", config());
  const auto first = work.run(arguments(file, {"train.precision=fp64"}));
  INFO(first.all());
  REQUIRE(first.code == 0);
  const auto other = work.run({"run", file, "-n", "1", "monitor.probe.enabled=false", "train.precision=fp64",
                               "train.micro_batch=12", "strategy.fsdp.enabled=false", "run.name=other",
                               "checkpoint.resume=runs/small/checkpoints/step-00000004"});
  INFO(other.all());
  REQUIRE(other.code == 0);
  CHECK(other.err.empty());
  CHECK_THAT(capstan::read_file(work.folder() / "runs/other/logs/rank-0.log"),
             Contains("it was saved on world 3") && Contains("the same global batches follow on world 1"));
  const auto theirs = read_metrics(work.folder() / "runs/small").all("loss");
  const auto mine = read_metrics(work.folder() / "runs/other");
  CHECK(mine.all("step") == std::vector<double>{4, 5, 6, 7});
  CHECK(distance(mine.all("loss"), {theirs.begin() + 4, theirs.end()}) < 1e-10);

  // A run's folder means its newest checkpoint: here the run's end.
  const auto ended =
      work.run({"run", file, "-n", "1", "monitor.probe.enabled=false", "train.precision=fp64", "train.micro_batch=12",
                "train.max_steps=9", "run.name=longer", "checkpoint.resume=runs/small"});
  INFO(ended.all());
  REQUIRE(ended.code == 0);
  CHECK_THAT(ended.err, Contains("another schedule than the one that was saved: steps was 8 and is 9"));
  CHECK(read_metrics(work.folder() / "runs/longer").all("step") == std::vector<double>{8});
}

TEST_CASE("a run that is asked to stop saves first, and continues as if nothing had been") {
  const Workspace work;
  const auto file = work.write("a.toml", config());
  const std::vector<std::string> long_run{"train.max_steps=40", "checkpoint.every_steps=1000"};
  auto straight = arguments(file, long_run);
  straight.emplace_back("run.name=straight");
  REQUIRE(work.run(straight).code == 0);

  std::int64_t stopped_after = 0;
  {
    Program program(work.folder(), arguments(file, long_run));
    REQUIRE(program.wait_for("global_step: 3 "));
    program.signal(SIGTERM);
    const auto ended = program.wait(limit);
    INFO(ended.all());
    REQUIRE_FALSE(ended.timed_out);
    CHECK(ended.code != 0);
    stopped_after = static_cast<std::int64_t>(read_metrics(work.folder() / "runs/small").steps.size());
  }
  const auto run = work.folder() / "runs/small";
  const auto saves = read_metrics(run).checkpoints;
  REQUIRE(saves.size() == 1);
  CHECK(saves[0].at("step") == stopped_after);
  CHECK_FALSE(fs::exists(run / "weights"));  // it is not at its end

  auto again = arguments(file, long_run);
  again.emplace_back("checkpoint.resume=auto");
  const auto resumed = work.run(again);
  INFO(resumed.all());
  REQUIRE(resumed.code == 0);
  CHECK(series(run) == series(work.folder() / "runs/straight"));
}

TEST_CASE("the best evaluation is saved and stays, and the run says where it is") {
  const Workspace work;
  const auto file = work.write("a.toml", config());
  const auto ended = work.run(arguments(file, {"checkpoint.every_steps=0", "checkpoint.keep_best=true",
                                               "checkpoint.keep=1", "train.eval_every=2", "optimizer.lr=0.3"}));
  INFO(ended.all());
  REQUIRE(ended.code == 0);
  const auto run = work.folder() / "runs/small";
  std::int64_t best = 0;
  double lowest = 1e300;
  for (const auto& evaluation : read_metrics(run).evaluations) {
    if (evaluation.at("loss").get<double>() >= lowest) continue;
    lowest = evaluation.at("loss").get<double>();
    best = evaluation.at("step").get<std::int64_t>();
  }
  const auto summary = read_json(run / "summary.json").at("checkpoints").at("best");
  CHECK(summary.at("step") == best);
  CHECK(summary.at("value") == lowest);
  CHECK(fs::exists(fs::path(work.folder()) / summary.at("path").get<std::string>() / "manifest.json"));
  CHECK_THAT(ended.out, Contains("Best checkpoint: "));
}

TEST_CASE("what a run cannot continue from is refused before it starts, all faults at once") {
  const Workspace work;
  const auto file = work.write("a.toml", config());
  const auto first = work.run(arguments(file));
  REQUIRE(first.code == 0);
  const std::string from = "checkpoint.resume=runs/small/checkpoints/step-00000004";
  const auto check = [&](const std::vector<std::string>& more) {
    std::vector<std::string> words{"check", file, "-n", "3", "monitor.probe.enabled=false", from};
    words.insert(words.end(), more.begin(), more.end());
    const auto outcome = work.run(words);
    CHECK(outcome.code == static_cast<int>(ExitCode::usage));
    return outcome.err;
  };
  CHECK_THAT(check({"model.hidden_size=24", "model.num_layers=1", "run.seed=4"}),
             Contains("record 'wte.weight' has shape [261, 12], the model's is [261, 24]") &&
                 Contains("it has the record 'h.1.") && Contains(", which the model has not") &&
                 Contains("seed is 4, but 3 in the checkpoint") && Contains("continue with the model that was saved"));
  CHECK_THAT(check({"model.num_layers=3"}), Contains("it has no record 'h.2."));
  CHECK_THAT(check({"train.max_steps=3"}), Contains("the run has 3 steps, and the checkpoint ") &&
                                               Contains("is after step 4") && Contains("make the run longer"));
  CHECK_THAT(check({"checkpoint.resume=runs/small/weights"}),
             Contains("it holds weights without the optimizer's state"));
  CHECK_THAT(check({"checkpoint.resume=runs/none"}), Contains("runs/none"));
  CHECK_THAT(check({"checkpoint.metric=eval_f1", "checkpoint.mode=max"}),
             Contains("checkpoint.metric has no effect") && Contains("checkpoint.mode has no effect") &&
                 Contains("set checkpoint.keep_best = true"));
  const auto blind = work.write("blind.toml", small_config({{"eval =", ""}, {"eval_samples", ""}}));
  const auto refused = work.run({"check", blind, "checkpoint.keep_best=true", "checkpoint.every_eval=true"});
  CHECK_THAT(refused.err, Contains("checkpoint.keep_best has no effect: there is no evaluation data") &&
                              Contains("checkpoint.every_eval has no effect: there is no evaluation data"));
  fs::create_directories(work.folder() / "runs/empty/checkpoints");
  CHECK_THAT(check({"checkpoint.resume=runs/empty"}), Contains("runs/empty has no valid checkpoint"));
}

}  // namespace resume_test
