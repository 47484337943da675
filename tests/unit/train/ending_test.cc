// How a run ends: before its last step where evaluations get no better, and with which weights; in-process ranks.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <map>
#include <nlohmann/json.hpp>

#include "checkpoint/checkpoint.h"
#include "support/small_run.h"
#include "train/loop.h"
#include "train/resume.h"

using namespace capstan;
using Json = nlohmann::json;

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* eval_file = "data.eval=" CAPSTAN_SOURCE_DIR "/configs/data/mini_squad_train.json";

// The loss falls: the first evaluation is the best.
constexpr const char* highest_is_best = "checkpoint.mode=max";

struct Ended {
  fs::path folder;
  Json summary;
  std::string model;
  std::vector<std::int64_t> evaluated;  // steps
};

// A run of two ranks in its own folder: 6 steps with an evaluation after each.
Ended run(const std::string& name, const Words& more, const std::string& tables = {}) {
  at::set_num_threads(1);
  const auto file = testing::small_config(tables);
  const auto dir = fs::path(file).parent_path();
  Words overrides{"train.max_steps=6",      "train.global_batch=24",  "train.precision=fp32",
                  "train.eval_every=1",     "data.eval_samples=4",    "checkpoint.every_steps=1",
                  "checkpoint.resume=auto", "run.deterministic=true", "run.dir=" + dir.string(),
                  "run.name=" + name};
  overrides.emplace_back(eval_file);
  overrides.insert(overrides.end(), more.begin(), more.end());
  Ended ended;
  const execution::Stop stop;
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    const int rank = communicator.world().rank;
    const auto job = testing::prepare_small(file, overrides, 2, rank);
    observe::RunFolder folder(train::shared_run_folder(job.config, communicator), rank);
    const auto resume = train::resume_run(job, communicator);
    auto session = session::materialise(job, communicator, {}, resume.reader.get());
    train::Loop loop(session, folder, stop, {.resume = &resume});
    loop.run();
    if (rank != 0) return;
    ended.folder = folder.path();
    ended.model = loop.model();
  });
  ended.summary = Json::parse(read_file(ended.folder / "summary.json"));
  for (const auto& line : split(trim(read_file(ended.folder / "metrics.jsonl")), '\n')) {
    const auto json = Json::parse(line);
    if (json.contains("split")) ended.evaluated.push_back(json.at("step").get<std::int64_t>());
  }
  return ended;
}

using Steps = std::vector<std::int64_t>;

std::map<std::string, at::Tensor> records(const fs::path& folder) {
  checkpoint::Reader reader(folder);
  std::map<std::string, at::Tensor> tensors;
  for (const auto& name : reader.tensors("model/")) {
    auto value = at::empty(reader.shape(name), at::kFloat);
    reader.read(name, layout::Box::whole(reader.shape(name)), value);
    tensors[name] = value;
  }
  return tensors;
}

bool equal(const fs::path& one, const fs::path& other) {
  const auto a = records(one);
  const auto b = records(other);
  return !a.empty() && a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const auto& entry) {
    return b.contains(entry.first) && at::equal(entry.second, b.at(entry.first));
  });
}

fs::path step_of(const Ended& ended, std::int64_t step) {
  return ended.folder / "checkpoints" / cat("step-0000000", step);
}

}  // namespace

TEST_CASE("a run whose evaluations get no better ends in order, and starts of it afterwards end at once") {
  const auto first = run("patient", {highest_is_best, "train.stop_after_evals=2"});
  CHECK(first.summary.at("steps") == 3);
  CHECK_THAT(first.summary.at("stopped_early").get<std::string>(),
             Catch::StartsWith("after step 3 of 6: eval_loss was no better than ") &&
                 Contains(" in 2 evaluations (train.stop_after_evals)"));
  CHECK(first.evaluated == Steps{1, 2, 3});
  CHECK(first.summary.at("weights_step") == 3);
  CHECK(equal(first.folder / "weights", step_of(first, 3)));

  const auto again = run("patient", {highest_is_best, "train.stop_after_evals=2"});
  CHECK(again.summary.at("first_step") == 3);
  CHECK(again.summary.at("steps") == 3);
  CHECK(again.summary.at("stopped_early") == first.summary.at("stopped_early"));
  CHECK(again.evaluated == first.evaluated);

  const auto longer = run("patient", {highest_is_best, "train.stop_after_evals=3"});
  CHECK(longer.summary.at("first_step") == 3);
  CHECK(longer.summary.at("steps") == 4);
  const auto whole = run("patient", {});
  CHECK(whole.summary.at("steps") == 6);
  CHECK_FALSE(whole.summary.contains("stopped_early"));
}

TEST_CASE("a run that is resumed counts evaluations since its beginning, and what is better than the best of them") {
  const auto first = run("counts", {highest_is_best, "train.stop_after_evals=4", "checkpoint.keep=0"});
  CHECK(first.summary.at("steps") == 5);
  for (const auto step : {3, 4, 5}) fs::remove_all(step_of(first, step));
  const auto again = run("counts", {highest_is_best, "train.stop_after_evals=4", "checkpoint.keep=0"});
  CHECK(again.summary.at("first_step") == 2);
  CHECK(again.summary.at("steps") == 5);
  CHECK(again.summary.at("stopped_early") == first.summary.at("stopped_early"));
  CHECK(again.evaluated == Steps{1, 2, 3, 4, 5});
  // The loss falls, but not by this much.
  const auto delta = run("delta", {"train.stop_min_delta=100", "train.stop_after_evals=2"});
  CHECK(delta.summary.at("steps") == 3);
  const auto better = run("better", {"train.stop_after_evals=2"});
  CHECK(better.summary.at("steps") == 6);
}

TEST_CASE("scores of answers decide too, and a start after the end answers once more") {
  const Words options{"train.stop_after_evals=2", "train.generate_each_eval=true", "checkpoint.metric=eval_f1",
                      "train.generate_samples=2", "train.max_new_tokens=1",        "train.stop_min_delta=1000"};
  const auto first = run("scores", options);
  CHECK(first.summary.at("steps") == 3);
  CHECK_THAT(first.summary.at("stopped_early").get<std::string>(), Contains("eval_f1 was no better than "));
  const auto again = run("scores", options);
  CHECK(again.summary.at("steps") == 3);
  CHECK(again.summary.at("stopped_early") == first.summary.at("stopped_early"));
  CHECK(again.evaluated == first.evaluated);
}

TEST_CASE("the final weights are those of the best evaluation where checkpoint.final_weights says so") {
  const Words best{highest_is_best, "checkpoint.keep_best=true", "checkpoint.final_weights=best", "checkpoint.keep=1"};
  int count = 0;
  for (const std::string tables :
       {"", "[strategy.fsdp]\nmode = \"full_shard\"\n", "[strategy.zero]\nstage = 1\noffload_optimizer = \"cpu\"\n",
        "[strategy.lora]\nrank = 2\n", "[checkpoint]\nasynchronous = false\n"}) {
    INFO(tables);
    const auto name = "best-" + std::to_string(count++);
    const auto first = run(name, best, tables);
    CHECK(first.summary.at("steps") == 6);
    CHECK(first.summary.at("weights_step") == 1);
    CHECK(first.summary.at("checkpoints").at("best").at("step") == 1);
    CHECK_THAT(first.model, Catch::StartsWith("the final weights are those of the best evaluation, after step 1\n"));
    CHECK(equal(first.folder / "weights", step_of(first, 1)));
    CHECK_FALSE(equal(first.folder / "weights", step_of(first, 6)));
    // A start that finds the run at its end writes them again.
    fs::remove_all(first.folder / "weights");
    const auto again = run(name, best, tables);
    CHECK(again.summary.at("first_step") == 6);
    CHECK(again.summary.at("weights_step") == 1);
    CHECK(equal(again.folder / "weights", step_of(first, 1)));
  }
}

TEST_CASE("the best evaluation of a run that is resumed may be one before") {
  const Words best{highest_is_best, "checkpoint.keep_best=true", "checkpoint.final_weights=best", "checkpoint.keep=0"};
  const auto first = run("resumed", best);
  for (const auto step : {4, 5, 6}) fs::remove_all(step_of(first, step));
  const auto again = run("resumed", best, "[strategy.fsdp]\nmode = \"full_shard\"\n");
  CHECK(again.summary.at("first_step") == 3);
  CHECK(again.summary.at("weights_step") == 1);
  CHECK(equal(again.folder / "weights", step_of(first, 1)));
}

TEST_CASE("a run that ends early may leave its best weights, and the last ones are what others leave") {
  const auto early = run("early", {highest_is_best, "checkpoint.keep_best=true", "checkpoint.final_weights=best",
                                   "train.stop_after_evals=2"});
  CHECK(early.summary.at("steps") == 3);
  CHECK(early.summary.at("weights_step") == 1);
  const auto last = run("last", {highest_is_best, "checkpoint.keep_best=true"});
  CHECK(last.summary.at("weights_step") == 6);
  CHECK(equal(last.folder / "weights", step_of(last, 6)));
}

TEST_CASE("options for a run's end that would do nothing are refused") {
  const auto check = [](const Words& more, const std::string& what) {
    Words overrides{"train.max_steps=6", "train.global_batch=24"};
    overrides.insert(overrides.end(), more.begin(), more.end());
    CHECK_THROWS_WITH(testing::prepare_small(testing::small_config(), overrides, 1, 0), Contains(what));
  };
  check({eval_file, "checkpoint.final_weights=best"}, "\"best\", but checkpoint.keep_best is off");
  check({"train.stop_after_evals=1"}, "train.stop_after_evals has no effect: there is no evaluation data");
  check({eval_file, "train.stop_after_evals=1", "train.eval_every=6"}, "has no effect: a run of 6 steps");
  check({eval_file, "train.stop_after_evals=1", "train.eval_every=1", "checkpoint.metric=eval_f1"},
        "checkpoint.metric is 'eval_f1', but evaluations answer no questions");
  check({eval_file, "train.stop_after_evals=1", "train.eval_every=1", "checkpoint.metric=bleu"},
        "checkpoint.metric is 'bleu', which the evaluations do not give");
  check({"train.stop_min_delta=0.1"}, "train.stop_min_delta has no effect: train.stop_after_evals is 0");
  check({eval_file, "checkpoint.mode=max"},
        "checkpoint.mode has no effect: checkpoint.keep_best is off, and train.stop_after_evals is 0");
  check({"optimizer.schedule=wsd", "optimizer.decay_steps=4"}, "a warm-up of 3 steps and a decay of 4 do not fit into");
}
