// When a run saves, what it saves, and what it says of it; in-process ranks.
#include "train/checkpoint_manager.h"

#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/log.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <cmath>
#include <set>

#include "step/saved_state.h"
#include "support/file_limit.h"
#include "support/small_run.h"
#include "train/loop.h"
#include "train/resume.h"

namespace checkpoint_manager_test {

using namespace capstan;

namespace {

namespace fs = std::filesystem;

// A run of two ranks, 6 steps, 3 an epoch, in a folder named after it.
struct Outcome {
  fs::path folder;
  std::string log;
  std::vector<std::int64_t> saved;  // steps, as metrics.jsonl tells them
  Json summary;
};

Outcome run_loop(const std::string& name, std::vector<std::string> overrides, const std::string& tables = {}) {
  at::set_num_threads(1);
  const auto file = testing::small_config(tables);
  const auto dir = fs::path(file).parent_path();
  for (const auto& more : {"train.max_steps=6", "train.global_batch=24", "train.precision=fp32"})
    overrides.emplace_back(more);
  overrides.push_back("run.dir=" + dir.string());
  overrides.push_back("run.name=" + name);
  Outcome outcome;
  const auto log_file = dir / (name + ".log");
  log::configure(log_file.string(), log::Level::error, 0);
  const step::Stop stop;
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    const int rank = communicator.world().rank;
    const auto job = testing::prepare_small(file, overrides, 2, rank);
    train::RunFolder folder(train::shared_run_folder(job.config, communicator), rank);
    const auto resume = train::resume_run(job, communicator);
    auto session = step::materialise(job, communicator, {}, resume.reader.get());
    train::SaveSetting setting;
    setting.resume = &resume;
    train::Loop loop(session, folder, stop, setting);
    loop.run();
    if (rank == 0) outcome.folder = folder.path();
  });
  log::configure("", log::Level::warning, 0);
  outcome.log = read_file(log_file);
  outcome.summary = Json::parse(read_file(outcome.folder / "summary.json"));
  for (const auto& line : split(trim(read_file(outcome.folder / "metrics.jsonl")), '\n')) {
    const auto json = Json::parse(line);
    if (json.contains("checkpoint")) outcome.saved.push_back(json.at("step").get<std::int64_t>());
  }
  return outcome;
}

std::set<std::string> folders(const fs::path& run) {
  std::set<std::string> names;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
    if (entry.is_directory()) names.insert(entry.path().filename().string());
  }
  return names;
}

using Steps = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("a run saves when it is asked to, and always at its end") {
  CHECK(run_loop("by-steps", {"checkpoint.every_steps=4"}).saved == Steps{4, 6});
  CHECK(run_loop("by-epochs", {"checkpoint.every_epoch=true"}).saved == Steps{3, 6});
  // What a rank's clock asks for travels with the sums of the step before.
  CHECK(run_loop("by-time", {"checkpoint.every_minutes=1e-9"}).saved == Steps{1, 3, 5, 6});
  CHECK(run_loop("by-long-time", {"checkpoint.every_minutes=600"}).saved == Steps{6});
  CHECK(run_loop("beside", {"checkpoint.every_steps=2", "checkpoint.asynchronous=false"}).saved == Steps{2, 4, 6});
  const auto without = run_loop("not-at-all", {"train.eval_every=0"});
  CHECK(without.saved.empty());
  CHECK_FALSE(fs::exists(without.folder / "checkpoints"));
  CHECK_FALSE(without.summary.contains("checkpoints"));
}

TEST_CASE("the newest stay") {
  const auto outcome = run_loop("kept", {"checkpoint.every_steps=1", "checkpoint.keep=2"});
  CHECK(folders(outcome.folder) == std::set<std::string>{"step-00000005", "step-00000006"});
  CHECK(outcome.summary.at("checkpoints").at("saves") == 6);
  CHECK(outcome.summary.at("checkpoints").at("stall_s").get<double>() > 0);
  CHECK(outcome.summary.at("checkpoints").at("bytes_per_second").get<double>() > 0);
}

TEST_CASE("a run continues in its own folder, and ends there if it had ended") {
  const auto first = run_loop("own", {"checkpoint.every_steps=2", "checkpoint.resume=auto", "run.deterministic=true"});
  const auto metrics = read_file(first.folder / "metrics.jsonl");
  fs::remove_all(first.folder / "checkpoints/step-00000006");
  const auto again = run_loop("own", {"checkpoint.every_steps=2", "checkpoint.resume=auto", "run.deterministic=true"});
  CHECK(again.folder == first.folder);
  CHECK_THAT(again.log, Contains("resuming from ") && Contains("step-00000004, after step 4"));
  CHECK(again.summary.at("last_loss") == first.summary.at("last_loss"));
  CHECK(again.summary.at("samples") == first.summary.at("samples"));
  const auto ended = run_loop("own", {"checkpoint.every_steps=2", "checkpoint.resume=auto", "run.deterministic=true"});
  CHECK(ended.summary.at("first_step") == 6);
  CHECK(ended.summary.at("last_loss") == first.summary.at("last_loss"));
}

TEST_CASE("check predicts the memory of a copy, which is what is saved") {
  for (const std::string strategy :
       {"", "[strategy.fsdp]\nmode = \"full_shard\"\n", "[strategy.zero]\nstage = 1\noffload_optimizer = \"cpu\"\n"}) {
    for (const char* precision : {"fp32", "bf16", "bf16_pure"}) {
      const auto file = testing::small_config(strategy + "[checkpoint]\nevery_steps = 1\n");
      std::vector<std::int64_t> predicted(3);
      std::vector<std::int64_t> saved(3);
      comm::run_in_process(3, [&](comm::Communicator& communicator) {
        const int rank = communicator.world().rank;
        const auto job = testing::prepare_small(file, {cat("train.precision=", precision)}, 3, rank);
        auto session = step::materialise(job, communicator);
        const step::Step step(session);
        const auto at = static_cast<std::size_t>(rank);
        for (const auto& part : job.prediction.footprints)
          predicted[at] += part.part == "checkpoint copy" ? part.bytes : 0;
        for (const auto& box : step::saved_boxes(session)) {
          saved[at] += static_cast<std::int64_t>(box.data.nbytes());
          // Only what strategies keep may change while a GPU still copies it.
          if (box.until_update == box.tensor.starts_with("strategy/")) saved[at] = -1;
        }
      });
      INFO(strategy << precision);
      CHECK(predicted == saved);
      // Ranks that hold the same share the work.
      for (const auto bytes : saved) CHECK(bytes > 0);
    }
  }
}

TEST_CASE("a run's statistics come back bit for bit") {
  train::Statistics statistics;
  monitor::StepEnded step;
  step.loss = 0.1;
  step.samples = 3;
  step.step_time_s = 1.0 / 3;
  statistics.step_ended(step);
  step.step = 1;
  step.loss = std::nan("");
  statistics.step_ended(step);
  statistics.skipped_in_a_row = 1;
  monitor::EvalEnded evaluation;
  evaluation.step = 2;
  evaluation.split = "eval";
  evaluation.loss = 0.7;
  evaluation.scores = {{"f1", 0.3}};
  statistics.evaluations.push_back(evaluation);
  const auto back = train::Statistics::restore(statistics.save());
  CHECK(back.first_loss == 0.1);
  CHECK(std::isnan(back.last_loss));
  CHECK(back.mean_loss() == 0.1);
  CHECK(back.samples == 6);
  CHECK(back.train_runtime_s == statistics.train_runtime_s);
  CHECK(back.skipped_in_a_row == 1);
  REQUIRE(back.evaluations.size() == 1);
  CHECK(back.evaluations[0].loss == 0.7);
  CHECK(back.evaluations[0].scores == evaluation.scores);
  CHECK_THROWS_WITH(train::Statistics::restore("{}"), Contains("the run's statistics are not what Capstan writes"));
}

TEST_CASE("metrics.jsonl continues after a step: later lines go, and one that a crash cut off") {
  const auto folder = fs::path(testing::small_config()).parent_path() / "metrics";
  fs::create_directories(folder);
  const std::string kept =
      "{\"step\":0,\"loss\":1.0}\n{\"step\":1,\"loss\":1.0}\n{\"step\":2,\"split\":\"eval\"}\n"
      "{\"step\":2,\"checkpoint\":\"a\"}\n";
  write_file(folder / "metrics.jsonl",
             kept + "{\"step\":2,\"loss\":1.0}\n{\"step\":3,\"split\":\"eval\"}\n{\"step\":3,\"lo");
  train::RunFolder run(folder, 0);
  run.resume_after(2);
  monitor::StepEnded step;
  step.step = 2;
  run.step_ended(step);
  const auto text = read_file(folder / "metrics.jsonl");
  CHECK(text.starts_with(kept + "{\"step\":2,\"steps\""));
  CHECK(split(trim(text), '\n').size() == 5);
}

TEST_CASE("a run that starts from its beginning keeps what an earlier start told") {
  const auto folder = fs::path(testing::small_config()).parent_path() / "metrics-anew";
  fs::create_directories(folder);
  write_file(folder / "metrics.jsonl", "{\"step\":0,\"loss\":1.0}\n");
  write_file(folder / "metrics-1.jsonl", "the first\n");
  train::RunFolder run(folder, 0);
  run.start_over();
  run.start_over();  // an empty file has nothing to keep
  CHECK(read_file(folder / "metrics-1.jsonl") == "the first\n");
  CHECK(read_file(folder / "metrics-2.jsonl") == "{\"step\":0,\"loss\":1.0}\n");
  CHECK(read_file(folder / "metrics.jsonl").empty());
  CHECK_FALSE(fs::exists(folder / "metrics-3.jsonl"));
}

TEST_CASE("checkpoints of a run that have vanished are not a run without any") {
  const std::vector<std::string> overrides{"checkpoint.every_steps=2", "checkpoint.resume=auto"};
  const auto first = run_loop("vanished", overrides);
  const auto metrics = read_file(first.folder / "metrics.jsonl");
  const auto checkpoints = first.folder / "checkpoints";
  fs::rename(checkpoints, first.folder / "elsewhere");
  const auto again = [&] { run_loop("vanished", overrides); };
  CHECK_THROWS_WITH(again(), Contains(checkpoints.string() + ": this run has saved checkpoints here") &&
                                 Contains("but the folder is gone") && Contains("fix: put them back, or mount "));
  fs::create_directory(checkpoints);
  CHECK_THROWS_WITH(again(), Contains(checkpoints.string() + ": this run has saved") && Contains("folder is empty"));
  fs::remove(checkpoints);
  fs::create_symlink("/nowhere/checkpoints", checkpoints);
  CHECK_THROWS_WITH(again(), Contains(checkpoints.string() + ": it is a link to /nowhere/checkpoints, which is not"));
  fs::remove(checkpoints);
  fs::create_symlink("checkpoints", checkpoints);
  CHECK_THROWS_WITH(again(), Contains(checkpoints.string() + ": cannot look at it: ") && Contains("(ELOOP)"));
  CHECK(read_file(first.folder / "metrics.jsonl") == metrics);
  fs::remove(checkpoints);
  fs::rename(first.folder / "elsewhere", checkpoints);
  CHECK(run_loop("vanished", overrides).summary.at("first_step") == 6);
}

TEST_CASE("metrics and reports for which a disk has no room follow when it has, or are said to be missing") {
  const auto folder = fs::path(testing::small_config()).parent_path() / "full";
  fs::create_directories(folder);
  train::RunFolder run(folder, 0);
  monitor::StepEnded step;
  const auto lines = [&] { return split(trim(read_file(folder / "metrics.jsonl")), '\n'); };
  run.step_ended(step);
  const auto line = static_cast<rlim_t>(read_file(folder / "metrics.jsonl").size());
  {
    const test::FileLimit limit(line + line / 2);
    for (int i = 0; i < 3; ++i) run.step_ended(step);
    run.predictions("eval", {{0, "id", "", std::string(1000, 'x'), {}}});
    CHECK(read_file(folder / "metrics.jsonl").size() == line);
    CHECK_FALSE(fs::exists(folder / "predictions-eval.json"));
    const auto missing = run.finish(std::chrono::milliseconds(0));
    CHECK_THAT(missing, Contains("metrics.jsonl: 3 lines of it could not be written: File too large (EFBIG)") &&
                            Contains("predictions-eval.json: cannot write it: File too large (EFBIG)"));
  }
  CHECK(run.finish(std::chrono::milliseconds(0)).empty());
  REQUIRE(lines().size() == 4);
  for (const auto& text : lines()) CHECK(Json::parse(text).at("step") == 0);
  CHECK(Json::parse(read_file(folder / "predictions-eval.json")).size() == 1);
}

TEST_CASE("a lack of host memory for the copy is known before anything is allocated") {
  const auto file = testing::small_config("[checkpoint]\nevery_steps = 1\n");
  // 315 KiB: more than training takes here, and less than that with the copy.
  CHECK_THROWS_WITH(testing::prepare_small(file, {"run.host_memory=3e-4"}, 1, 0),
                    Contains("training on CPUs needs ") && Contains("of host memory a rank"));
  CHECK_NOTHROW(testing::prepare_small(file, {"run.host_memory=3e-4", "checkpoint.asynchronous=false"}, 1, 0));
}

TEST_CASE("a run folder that cannot be made is named") {
  const auto file = testing::small_config();
  CHECK_THROWS_WITH(train::RunFolder::reuse(file, "a"),
                    Contains("cannot make a folder for the run: Not a directory (ENOTDIR)") && Contains(file + "/a"));
}

}  // namespace checkpoint_manager_test
