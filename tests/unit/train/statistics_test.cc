#include "train/statistics.h"

#include <capstan_catch.h>

namespace statistics_test {

using namespace capstan;

TEST_CASE(
    "an evaluation is its loss and the scores of answers after the same step, those of training questions apart") {
  train::Statistics statistics;
  monitor::EvalEnded loss;
  loss.step = 4;
  loss.split = "eval";
  loss.loss = 1.5;
  statistics.eval_ended(loss);
  CHECK(statistics.evaluation_after(4)->scores.empty());
  for (const auto& [split, f1] : {std::pair{"train", 90.0}, std::pair{"eval", 60.0}}) {
    monitor::EvalEnded answers;
    answers.step = 4;
    answers.split = split;
    answers.scores = {{"f1", f1}};
    statistics.eval_ended(answers);
  }
  loss.step = 8;
  loss.loss = 1.25;
  statistics.eval_ended(loss);
  const auto whole = statistics.evaluation_after(4);
  REQUIRE(whole);
  CHECK(whole->loss == 1.5);
  CHECK(whole->scores == monitor::Values{{"f1", 60.0}});
  CHECK(statistics.evaluation_after(8)->loss == 1.25);
  CHECK_FALSE(statistics.evaluation_after(5));
  CHECK(statistics.evaluations.size() == 4);
}

}  // namespace statistics_test
