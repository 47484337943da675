#include "setup/stopping.h"

#include <capstan_catch.h>

#include <limits>

#include "config/document.h"
#include "support/folder.h"

namespace stopping_test {

using namespace capstan;

namespace {

constexpr double not_finite = std::numeric_limits<double>::quiet_NaN();

std::string reason(std::int64_t after, double delta, const std::string& mode, const std::vector<double>& values) {
  setup::TrainOptions train;
  train.stop_after_evals = after;
  train.stop_min_delta = delta;
  return setup::reason_to_stop(train, "eval_loss", mode == "min", values);
}

// What [train] is faulted for in a run of 20 steps, 8 an epoch.
std::string fault_of(const std::string& table, std::int64_t steps_per_epoch = 8) {
  const test::Folder folder;
  Diagnostics faults;
  const auto document = config::load(folder.write("a.toml", "[train]\n" + table), {}, faults);
  setup::check_stopping(config::Options<setup::TrainOptions>(document.section("train"), faults), 20, steps_per_epoch,
                        faults);
  return faults.empty() ? std::string() : faults.list().front().text();
}

}  // namespace

TEST_CASE("a run ends when this number of evaluations in a row were no better than the best") {
  CHECK(reason(0, 0, "min", {1, 2, 3, 4}).empty());
  CHECK(reason(2, 0, "min", {}).empty());
  CHECK(reason(2, 0, "min", {3, 2, 2}).empty());
  CHECK(reason(2, 0, "min", {3, 2, 2, 1.9}).empty());
  CHECK(reason(2, 0, "min", {3, 2, 2.5, 2}) ==
        "eval_loss was no better than 2 in 2 evaluations (train.stop_after_evals)");
  CHECK(reason(2, 0, "max", {3, 4, 4, 5}).empty());
  CHECK(reason(1, 0, "max", {3, 2}) == "eval_loss was no better than 3 in 1 evaluation (train.stop_after_evals)");
}

TEST_CASE("what is better by little counts as no better, until it adds up") {
  CHECK_FALSE(reason(2, 0.5, "min", {3, 2.75, 2.5}).empty());
  CHECK(reason(2, 0.5, "min", {3, 2.75, 2.25}).empty());
  CHECK(reason(3, 0.5, "max", {1, 1.25, 1.75, 2, 2.25}).empty());
}

TEST_CASE("a value that is not finite is no better than any other") {
  CHECK(reason(2, 0, "min", {not_finite, 3}).empty());
  CHECK_FALSE(reason(2, 0, "min", {3, not_finite, not_finite}).empty());
  CHECK(reason(2, 0, "max", {not_finite, not_finite}) == "eval_loss was not finite in 2 evaluations");
}

TEST_CASE("a run that would never end early is told so where the option is set") {
  CHECK(fault_of("").empty());
  CHECK(fault_of("stop_after_evals = 1\n").empty());
  CHECK(fault_of("stop_after_evals = 3\neval_every = 4\n").empty());
  CHECK_THAT(
      fault_of("stop_after_evals = 4\neval_every = 4\n"),
      Contains("a.toml:2: train.stop_after_evals = 4 has no effect: a run of 20 steps with an evaluation every 4 "
               "has 4 of them before its end") &&
          Contains("fix: set train.eval_every to evaluate more often"));
  CHECK_THAT(fault_of("stop_after_evals = 1\n", 0),
             Contains("a.toml:2: train.stop_after_evals has no effect: there is no evaluation data") &&
                 Contains("fix: name an evaluation file in [data]"));
}

}  // namespace stopping_test
