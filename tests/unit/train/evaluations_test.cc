#include "train/evaluations.h"

#include <ATen/Parallel.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include "support/folder.h"
#include "support/small_run.h"

namespace evaluations_test {

using namespace capstan;

namespace {

const std::string eval_file = "data.eval=" CAPSTAN_SOURCE_DIR "/configs/data/mini_squad_eval.json";

// Who is told of evaluations.
class Watcher final : public monitor::Monitor {
 public:
  void eval_ended(const monitor::EvalEnded& event) override { events.push_back(event); }
  std::vector<monitor::EvalEnded> events;
};

using Work = std::function<void(train::Evaluations&, const Watcher&)>;

// A run of 6 steps, 3 an epoch, with these options.
void with_evaluations(std::vector<std::string> overrides, const Work& work, const step::Stop& stop = {}) {
  at::set_num_threads(1);
  for (const char* more : {"train.max_steps=6", "train.global_batch=24", "train.precision=fp32"})
    overrides.emplace_back(more);
  const test::Folder folder;
  comm::run_in_process(1, [&](comm::Communicator& communicator) {
    const auto job = testing::prepare_small(testing::small_config(), overrides, 1, 0);
    auto session = step::materialise(job, communicator);
    const step::Feed feed(job);
    train::RunFolder run(folder.path(), 0);
    train::Observers observers;
    Watcher watcher;
    observers.add("", watcher);
    train::Evaluations evaluations(session, feed, step::StopAgreement(session.world_host, stop), observers, run);
    work(evaluations, watcher);
  });
}

std::vector<std::int64_t> due_of(const std::vector<std::string>& overrides) {
  std::vector<std::int64_t> due;
  with_evaluations(overrides, [&](const train::Evaluations& evaluations, const Watcher&) {
    for (std::int64_t step = 0; step <= 6; ++step) {
      if (evaluations.due(step)) due.push_back(step);
    }
  });
  return due;
}

using Steps = std::vector<std::int64_t>;
using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("an evaluation is due after each epoch or every so many steps, always at the end, and never without data") {
  CHECK(due_of({eval_file}) == Steps{3, 6});
  CHECK(due_of({eval_file, "train.eval_every=2"}) == Steps{2, 4, 6});
  CHECK(due_of({eval_file, "train.eval_every=4"}) == Steps{4, 6});
  CHECK(due_of({"train.eval_every=2"}).empty());
}

TEST_CASE("questions of a step are answered once, those of the training data first, and five of a split are shown") {
  with_evaluations({eval_file, "train.generate_train_samples=2", "train.generate_samples=6", "train.max_new_tokens=1"},
                   [](train::Evaluations& evaluations, const Watcher& watcher) {
                     CHECK(evaluations.asked_splits() == Words{"train", "eval"});
                     evaluations.answer_all(3);
                     REQUIRE(watcher.events.size() == 2);
                     CHECK(watcher.events[0].split == "train");
                     CHECK(watcher.events[0].samples == 2);
                     CHECK(watcher.events[1].split == "eval");
                     CHECK(watcher.events[1].step == 3);
                     CHECK_FALSE(watcher.events[1].loss);
                     CHECK(evaluations.shown_answers().size() == 2 + 5);
                     evaluations.answer_all(3);
                     CHECK(watcher.events.size() == 2);
                     evaluations.answer_all(6);
                     CHECK(watcher.events.size() == 4);
                     CHECK(evaluations.shown_answers().size() == 2 + 5);
                   });
}

TEST_CASE("the loss is told with each evaluation, and answers only where they are asked for each time") {
  const std::vector<std::string> asks{eval_file, "train.generate_samples=1", "train.max_new_tokens=1"};
  with_evaluations(asks, [](train::Evaluations& evaluations, const Watcher& watcher) {
    CHECK(evaluations.asked_splits() == Words{"eval"});
    evaluations.run(3);
    REQUIRE(watcher.events.size() == 1);
    CHECK(watcher.events[0].split == "eval");
    CHECK(watcher.events[0].loss);
    CHECK(watcher.events[0].epoch_progress == 1);
  });
  auto each = asks;
  each.emplace_back("train.generate_each_eval=true");
  with_evaluations(each, [](train::Evaluations& evaluations, const Watcher& watcher) {
    evaluations.run(3);
    REQUIRE(watcher.events.size() == 2);
    CHECK_FALSE(watcher.events[1].loss);
  });
}

TEST_CASE("evaluation sets with a name are part of each evaluation, whether there is one without a name or not") {
  const std::string sets =
      "data.eval_files=[\"" CAPSTAN_SOURCE_DIR "/configs/data/mini_squad_eval.json\", \"" CAPSTAN_SOURCE_DIR
      "/configs/data/mini_squad_train.json\"]";
  monitor::EvalEnded both;
  with_evaluations({eval_file, sets}, [&](train::Evaluations& evaluations, const Watcher& watcher) {
    evaluations.run(3);
    REQUIRE(watcher.events.size() == 1);
    both = watcher.events[0];
  });
  REQUIRE(both.scores.size() == 2);
  CHECK(both.scores[0].first == "loss_mini_squad_eval");
  CHECK(both.scores[0].second == both.loss);
  CHECK(both.scores[1].first == "loss_mini_squad_train");
  CHECK(both.scores[1].second != both.loss);
  CHECK(due_of({sets}) == Steps{3, 6});
  with_evaluations({sets, "checkpoint.keep_best=true", "checkpoint.metric=eval_loss_mini_squad_train"},
                   [&](train::Evaluations& evaluations, const Watcher& watcher) {
                     evaluations.run(3);
                     REQUIRE(watcher.events.size() == 1);
                     CHECK_FALSE(watcher.events[0].loss);
                     CHECK(watcher.events[0].scores == both.scores);
                     CHECK(watcher.events[0].samples < both.samples);
                   });
  CHECK_THROWS_WITH(due_of({sets, "checkpoint.keep_best=true", "checkpoint.metric=eval_loss"}),
                    Contains("'eval_loss', which the evaluations do not give"));
}

TEST_CASE("an evaluation ends when the run is asked to stop, and nobody is told of it") {
  step::Stop stop;
  stop.ask(15);
  with_evaluations(
      {eval_file},
      [](train::Evaluations& evaluations, const Watcher& watcher) {
        CHECK_THROWS_AS(evaluations.run(3), step::Stopped);
        CHECK(watcher.events.empty());
      },
      stop);
}

}  // namespace evaluations_test
