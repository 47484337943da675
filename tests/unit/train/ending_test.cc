// How a run ends: before its last step where evaluations get no better, and with which weights; in-process ranks.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/base/files.h>
#include <capstan/base/json.h>
#include <capstan/base/text.h>
#include <capstan/objective.h>
#include <capstan/testing.h>
#include <capstan_catch.h>

#include <cmath>
#include <map>

#include "checkpoint/checkpoint.h"
#include "support/job.h"
#include "support/small_run.h"
#include "train/loop.h"
#include "train/resume.h"

namespace ending_test {

using namespace capstan;

namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

constexpr const char* eval_file = "data.eval=" CAPSTAN_SOURCE_DIR "/configs/data/mini_squad_train.json";

// The loss with a figure that is the same number and is better the higher it is: it falls, so the first one is the
// best.
struct NoOptions {
  static void describe(config::OptionTable<NoOptions>& /*t*/) {}
};

class Doubts final : public objective::Objective {
 public:
  explicit Doubts(const config::Options<NoOptions>& /*options*/) {}
  objective::Plan plan() const override {
    objective::Plan plan;
    plan.passes = {{"policy"}};
    plan.counts = {"target tokens"};
    plan.terms = {{}};
    plan.figures = {{"doubt", 0, objective::Better::higher}};
    return plan;
  }
  std::vector<double> counts(const data::HostBatch& batch) const override {
    return {static_cast<double>(batch.target_tokens)};
  }
  objective::Sums sums(const std::vector<at::Tensor>& outputs, const nn::Batch& /*batch*/) const override {
    return {{outputs[0]}, {outputs[0].detach()}};
  }
};

job::Job prepare(const std::string& file, const Words& overrides, int world, int rank) {
  static plugin::Host host;
  static const bool is_added = [] {
    host.add(testing::type<objective::Objective, Doubts, NoOptions>("objective", "doubts"));
    return true;
  }();
  CAPSTAN_ASSERT(is_added);
  setup::JobRequest request;
  request.file = file;
  request.overrides = overrides;
  request.world_size = world;
  request.rank = rank;
  return testing::job_of(request, host);
}

constexpr const char* gets_worse = "checkpoint.metric=eval_doubt";

struct Ended {
  fs::path folder;
  Json summary;
  std::string model;
  std::vector<std::int64_t> evaluated;  // steps
};

// A run of two ranks in its own folder: 6 steps with an evaluation after each.
Ended run(const std::string& name, const Words& more, const std::string& tables = {}) {
  at::set_num_threads(1);
  const auto file = testing::small_config("[objective]\nplugin = \"doubts\"\n" + tables);
  const auto dir = fs::path(file).parent_path();
  Words overrides{"train.max_steps=6",       "train.global_batch=24",  "train.precision=fp32",
                  "train.eval_every=1",      "data.eval_samples=4",    "checkpoint.every_steps=1",
                  "checkpoint.resume=auto",  "run.deterministic=true", "optimizer.warmup_steps=1",
                  "run.dir=" + dir.string(), "run.name=" + name};
  overrides.emplace_back(eval_file);
  overrides.insert(overrides.end(), more.begin(), more.end());
  Ended ended;
  const step::Stop stop;
  comm::run_in_process(2, [&](comm::Communicator& communicator) {
    const int rank = communicator.world().rank;
    const auto job = prepare(file, overrides, 2, rank);
    train::RunFolder folder(train::shared_run_folder(job.config, communicator), rank);
    const auto resume = train::resume_run(job, communicator);
    auto session = step::materialise(job, communicator, {}, resume.reader.get());
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
  const auto first = run("patient", {gets_worse, "train.stop_after_evals=2"});
  CHECK(first.summary.at("steps") == 3);
  CHECK_THAT(first.summary.at("stopped_early").get<std::string>(),
             Catch::StartsWith("after step 3 of 6: eval_doubt was no better than ") &&
                 Contains(" in 2 evaluations (train.stop_after_evals)"));
  CHECK(first.evaluated == Steps{1, 2, 3});
  CHECK(first.summary.at("weights_step") == 3);
  CHECK(equal(first.folder / "weights", step_of(first, 3)));

  const auto again = run("patient", {gets_worse, "train.stop_after_evals=2"});
  CHECK(again.summary.at("first_step") == 3);
  CHECK(again.summary.at("steps") == 3);
  CHECK(again.summary.at("stopped_early") == first.summary.at("stopped_early"));
  CHECK(again.evaluated == first.evaluated);

  const auto longer = run("patient", {gets_worse, "train.stop_after_evals=3"});
  CHECK(longer.summary.at("first_step") == 3);
  CHECK(longer.summary.at("steps") == 4);
  const auto whole = run("patient", {});
  CHECK(whole.summary.at("steps") == 6);
  CHECK_FALSE(whole.summary.contains("stopped_early"));
}

TEST_CASE("a run that is resumed counts evaluations since its beginning, and what is better than the best of them") {
  const auto first = run("counts", {gets_worse, "train.stop_after_evals=4", "checkpoint.keep=0"});
  CHECK(first.summary.at("steps") == 5);
  for (const auto step : {3, 4, 5}) fs::remove_all(step_of(first, step));
  const auto again = run("counts", {gets_worse, "train.stop_after_evals=4", "checkpoint.keep=0"});
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
  const Words best{gets_worse, "checkpoint.keep_best=true", "checkpoint.final_weights=best", "checkpoint.keep=1"};
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
  const Words best{gets_worse, "checkpoint.keep_best=true", "checkpoint.final_weights=best", "checkpoint.keep=0"};
  const auto first = run("resumed", best);
  for (const auto step : {4, 5, 6}) fs::remove_all(step_of(first, step));
  const auto again = run("resumed", best, "[strategy.fsdp]\nmode = \"full_shard\"\n");
  CHECK(again.summary.at("first_step") == 3);
  CHECK(again.summary.at("weights_step") == 1);
  CHECK(equal(again.folder / "weights", step_of(first, 1)));
}

TEST_CASE("a run that ends early may leave its best weights, and the last ones are what others leave") {
  const auto early = run(
      "early", {gets_worse, "checkpoint.keep_best=true", "checkpoint.final_weights=best", "train.stop_after_evals=2"});
  CHECK(early.summary.at("steps") == 3);
  CHECK(early.summary.at("weights_step") == 1);
  const auto last = run("last", {gets_worse, "checkpoint.keep_best=true"});
  CHECK(last.summary.at("weights_step") == 6);
  CHECK(equal(last.folder / "weights", step_of(last, 6)));
}

namespace {

// The steps that a run's folder has checkpoints of, each with a metric's value.
std::map<std::int64_t, double> values_on_disk(const Ended& ended, const std::string& metric) {
  std::map<std::int64_t, double> values;
  for (const auto& path : checkpoint::committed(ended.folder / "checkpoints")) {
    const auto meta = checkpoint::Checkpoint(path).meta();
    const auto found = meta.metrics.find(metric);
    values[meta.step] = found == meta.metrics.end() ? std::nan("") : found->second;
  }
  return values;
}

// The run has ended with the weights of the best checkpoint that there is, and has kept it and the last one.
void check_best(const Ended& ended, const std::string& metric, std::int64_t last) {
  const auto best = ended.summary.at("checkpoints").at("best").at("step").get<std::int64_t>();
  auto values = values_on_disk(ended, metric);
  CHECK(ended.summary.at("weights_step") == best);
  CHECK(equal(ended.folder / "weights", step_of(ended, best)));
  CHECK(values.contains(last));
  CHECK(values.size() == (best == last ? 1U : 2U));
  REQUIRE(values.contains(best));
  for (const auto& [step, value] : values) CHECK_FALSE(values.at(best) < value);
}

const Words keeps_one{"checkpoint.keep=1"};
const Words by_doubt{gets_worse, "checkpoint.keep=1", "checkpoint.keep_best=true", "checkpoint.final_weights=best"};

Words with(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

const Words by_f1 = with(by_doubt, {"checkpoint.metric=eval_f1", "train.generate_each_eval=true",
                                    "train.generate_samples=2", "train.max_new_tokens=1"});

}  // namespace

TEST_CASE("a run that keeps its best from a resume on takes the best of those that are there") {
  const auto first = run("late", with(keeps_one, {"train.max_steps=3"}));
  CHECK(values_on_disk(first, "eval_doubt").size() == 1);
  const auto again = run("late", by_doubt);
  CHECK(again.summary.at("first_step") == 3);
  CHECK(again.summary.at("weights_step") == 3);
  check_best(again, "eval_doubt", 6);
  check_best(run("late", by_doubt), "eval_doubt", 6);  // a start that finds it at its end
}

TEST_CASE("the best of a run whose metric changes is by the new one, and by the old one after the way back") {
  const auto first = run("changes", with(by_doubt, {"train.max_steps=2"}));
  CHECK(first.summary.at("weights_step") == 1);
  const auto other = run("changes", with(by_f1, {"train.max_steps=4"}));
  CHECK(other.summary.at("weights_step").get<std::int64_t>() > 2);
  check_best(other, "eval_f1", 4);
  const auto back = run("changes", by_doubt);
  check_best(back, "eval_doubt", 6);
  const auto off = run("changes", with(keeps_one, {"train.max_steps=7"}));
  CHECK(off.summary.at("weights_step") == 7);
  CHECK(values_on_disk(off, "eval_doubt").size() == 1);
  check_best(run("changes", with(by_doubt, {"train.max_steps=8"})), "eval_doubt", 8);
}

TEST_CASE("an evaluation that left no checkpoint is not the best") {
  const auto first = run("unsaved", {"train.max_steps=3", "checkpoint.every_steps=2", "checkpoint.keep=0"});
  const auto again = run("unsaved", with(by_doubt, {"checkpoint.every_steps=2"}));
  CHECK(again.summary.at("weights_step") == 2);
  check_best(again, "eval_doubt", 6);
}

TEST_CASE("a run that continues another's checkpoint at its end has that one as its best") {
  const auto first = run("origin", with(by_doubt, {"train.max_steps=3"}));
  const auto again =
      run("elsewhere", with(by_doubt, {"train.max_steps=3", "checkpoint.resume=" + step_of(first, 3).string()}));
  CHECK(again.folder != first.folder);
  CHECK(again.summary.at("weights_step") == 3);
  check_best(again, "eval_doubt", 3);
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
  const std::string best = "checkpoint.keep_best=true";
  const Words asks{eval_file, best, "checkpoint.metric=eval_f1", "train.generate_each_eval=true",
                   "train.generate_samples=1"};
  check({eval_file, best, "checkpoint.mode=max"}, "checkpoint.mode is \"max\", but the best eval_loss is the lowest");
  check(with(asks, {"checkpoint.mode=min"}), "checkpoint.mode is \"min\", but the best eval_f1 is the highest");
  for (const auto& fine : {Words{eval_file, best, "checkpoint.mode=min"}, with(asks, {"checkpoint.mode=max"}), asks})
    CHECK_NOTHROW(testing::prepare_small(testing::small_config(), fine, 1, 0));
  CHECK_FALSE(testing::prepare_small(testing::small_config(), asks, 1, 0).samples.lowest_is_best);
  CHECK(testing::prepare_small(testing::small_config(), {eval_file, best}, 1, 0).samples.lowest_is_best);
  check({eval_file, "checkpoint.mode=max"},
        "checkpoint.mode has no effect: checkpoint.keep_best is off, and train.stop_after_evals is 0");
  check({"optimizer.schedule=wsd", "optimizer.decay_steps=4"}, "a warm-up of 3 steps and a decay of 4 do not fit into");
}

}  // namespace ending_test
