#include "setup/schedule.h"

#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>

#include "config/document.h"
#include "support/folder.h"

namespace schedule_test {

using namespace capstan;
using setup::learning_rate;
using setup::OptimizerOptions;

namespace {

// As the workshop's step lines print it: four significant digits.
std::string printed(double lr) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", lr);
  return text;
}

}  // namespace

TEST_CASE("the learning rates of the workshop's run: lr 1e-4, 50 warm-up steps, cosine over 250") {
  OptimizerOptions options;
  options.lr = 1e-4;
  options.warmup_steps = 50;
  options.schedule = "cosine";
  CHECK(printed(learning_rate(options, 0, 250)) == "1.961e-06");
  CHECK(printed(learning_rate(options, 1, 250)) == "3.922e-06");
  CHECK(printed(learning_rate(options, 2, 250)) == "5.882e-06");
  CHECK(learning_rate(options, 50, 250) == 1e-4);
  CHECK(printed(learning_rate(options, 249, 250)) == "6.168e-09");
}

TEST_CASE("linear, constant, min_lr and Hugging Face's warm-up from zero") {
  OptimizerOptions options;
  options.lr = 2.0;
  options.min_lr = 1.0;
  options.schedule = "linear";
  CHECK(learning_rate(options, 0, 4) == 2.0);
  CHECK(learning_rate(options, 1, 4) == 1.75);
  CHECK(learning_rate(options, 4, 4) == 1.0);
  options.schedule = "constant";
  CHECK(learning_rate(options, 3, 4) == 2.0);
  options.schedule = "cosine";
  CHECK(learning_rate(options, 2, 4) == Approx(1.5).epsilon(1e-15));
  options.warmup_steps = 4;
  options.warmup_from_zero = true;
  CHECK(learning_rate(options, 0, 8) == 0.0);
  CHECK(learning_rate(options, 3, 8) == 1.5);
  CHECK(learning_rate(options, 4, 8) == 2.0);
}

namespace {

// Hugging Face's formulas (transformers/optimization.py), as factors of lr.
double hf_inverse_sqrt(double step, double warmup) {
  const double timescale = warmup > 0 ? warmup : 10000;
  if (step < warmup) return step / std::max(1.0, warmup);
  return 1 / std::sqrt((step + timescale - warmup) / timescale);
}

double hf_hard_restarts(double step, double warmup, double steps, double cycles) {
  if (step < warmup) return step / std::max(1.0, warmup);
  const double progress = (step - warmup) / std::max(1.0, steps - warmup);
  if (progress >= 1) return 0;
  return std::max(0.0, 0.5 * (1 + std::cos(std::numbers::pi * std::fmod(cycles * progress, 1.0))));
}

double hf_wsd(double step, double warmup, double stable, double decay, const std::string& type, double min_ratio) {
  if (step < warmup) return step / std::max(1.0, warmup);
  if (step < warmup + stable) return 1;
  if (step >= warmup + stable + decay) return min_ratio;
  const double progress = (step - warmup - stable) / std::max(1.0, decay);
  double factor = 1 - progress;
  if (type == "sqrt") factor = 1 - std::sqrt(progress);
  if (type == "cosine") factor = 0.5 * (1 + std::cos(std::numbers::pi * progress));
  return factor * (1 - min_ratio) + min_ratio;
}

OptimizerOptions hf_options(const std::string& schedule, std::int64_t warmup) {
  OptimizerOptions options;
  options.lr = 3e-4;
  options.schedule = schedule;
  options.warmup_steps = warmup;
  options.warmup_from_zero = true;
  return options;
}

// What the options of this [optimizer] are faulted for, in a run of 100 steps.
std::vector<std::string> faults_of(const std::string& table) {
  const test::Folder folder;
  Diagnostics faults;
  const auto document = config::load(folder.write("a.toml", "[optimizer]\n" + table), {}, faults);
  const config::Options<OptimizerOptions> options(document.section("optimizer"), faults);
  setup::check_schedule(options, faults);
  setup::check_schedule_length(options, 100, faults);
  std::vector<std::string> texts;
  for (const auto& fault : faults.list()) texts.push_back(fault.text());
  return texts;
}

void check_fault(const std::string& table, const std::string& where, const std::string& what, const std::string& fix) {
  INFO(table);
  const auto faults = faults_of(table);
  REQUIRE(faults.size() == 1);
  CHECK_THAT(faults.front(), Contains(where + ": " + what) && Contains("fix: " + fix));
}

}  // namespace

TEST_CASE("inverse_sqrt, cosine_restarts and wsd have the values of Hugging Face's formulas") {
  constexpr std::int64_t steps = 100;
  for (const std::int64_t warmup : {0, 10}) {
    for (std::int64_t step = 0; step <= steps; ++step) {
      INFO("warm-up " << warmup << ", step " << step);
      const auto s = static_cast<double>(step);
      const auto w = static_cast<double>(warmup);
      const auto matches = [&](const OptimizerOptions& options, double factor) {
        CHECK(learning_rate(options, step, steps) == Approx(3e-4 * factor).epsilon(1e-13).margin(1e-20));
      };
      matches(hf_options("inverse_sqrt", warmup), hf_inverse_sqrt(s, w));
      auto restarts = hf_options("cosine_restarts", warmup);
      restarts.restarts = 3;
      matches(restarts, hf_hard_restarts(s, w, steps, 3));
      for (const char* shape : {"linear", "sqrt", "cosine"}) {
        auto wsd = hf_options("wsd", warmup);
        wsd.decay_steps = 20;
        wsd.decay_shape = shape;
        wsd.min_lr = 3e-5;
        matches(wsd, hf_wsd(s, w, steps - w - 20, 20, shape, 0.1));
      }
    }
  }
}

TEST_CASE("one fall of cosine_restarts is cosine, wsd's stable part is lr to the bit, and min_lr is a floor") {
  auto restarts = hf_options("cosine_restarts", 7);
  restarts.min_lr = 1e-5;
  auto wsd = hf_options("wsd", 7);
  wsd.min_lr = 1.1e-5;
  wsd.decay_ratio = 0.1;
  auto inverse = hf_options("inverse_sqrt", 1);
  inverse.min_lr = 1e-4;
  auto cosine = restarts;
  cosine.schedule = "cosine";
  for (std::int64_t step = 0; step <= 50; ++step)
    CHECK(learning_rate(restarts, step, 50) == learning_rate(cosine, step, 50));
  for (std::int64_t step = 7; step <= 45; ++step) CHECK(learning_rate(wsd, step, 50) == 3e-4);
  CHECK(learning_rate(wsd, 46, 50) < 3e-4);
  CHECK(learning_rate(wsd, 50, 50) == 1.1e-5);
  CHECK(learning_rate(inverse, 8, 50) > 1e-4);
  CHECK(learning_rate(inverse, 10, 50) == 1e-4);
}

TEST_CASE("shares of the run's steps are rounded up, and a decay begins after the warm-up") {
  OptimizerOptions options;
  options.warmup_ratio = 0.1;
  CHECK(setup::warmup_of(options, 250) == 25);
  CHECK(setup::warmup_of(options, 251) == 26);
  auto steps = options;
  steps.warmup_ratio = 0;
  steps.warmup_steps = 26;
  for (std::int64_t step = 0; step < 251; ++step)
    CHECK(learning_rate(options, step, 251) == learning_rate(steps, step, 251));
  options.schedule = "wsd";
  options.decay_ratio = 0.2;
  CHECK(setup::decay_of(options, 251) == 51);
  options.warmup_ratio = options.decay_ratio = 0.5;
  CHECK(setup::warmup_of(options, 5) == 3);
  CHECK(setup::decay_of(options, 5) == 2);
}

TEST_CASE("options that the schedule does not look at, or that contradict each other, are refused where they are set") {
  for (const char* good :
       {"", "schedule = \"wsd\"\ndecay_ratio = 0.2\n", "warmup_ratio = 0.1\nwarmup_steps = 0\n",
        "schedule = \"wsd\"\ndecay_ratio = 0.5\nwarmup_ratio = 0.5\n", "decay_shape = \"linear\"\nrestarts = 1\n",
        "schedule = \"cosine_restarts\"\nrestarts = 3\nmin_lr = 1e-6\n"}) {
    INFO(good);
    CHECK(faults_of(good).empty());
  }
  const std::string linear = "has no effect: optimizer.schedule is \"linear\"";
  check_fault("decay_steps = 5\n", "a.toml:2", "optimizer.decay_steps " + linear,
              "remove it, or set optimizer.schedule = \"wsd\"");
  check_fault("decay_ratio = 0.5\n", "a.toml:2", "optimizer.decay_ratio " + linear, "remove it");
  check_fault("decay_shape = \"sqrt\"\n", "a.toml:2", "optimizer.decay_shape " + linear, "remove it");
  check_fault("restarts = 2\n", "a.toml:2", "optimizer.restarts " + linear,
              "remove it, or set optimizer.schedule = \"cosine_restarts\"");
  check_fault("schedule = \"constant\"\nmin_lr = 1e-6\n", "a.toml:3",
              "optimizer.min_lr has no effect: optimizer.schedule is \"constant\"", "remove it");
  for (const char* schedule : {"linear", "cosine", "inverse_sqrt"}) {
    check_fault(cat("schedule = \"", schedule, "\"\nlr = 1e-5\nmin_lr = 1e-3\n"), "a.toml:4",
                "optimizer.min_lr = 0.001 is above optimizer.lr = 1e-05 (", "set optimizer.min_lr to less");
  }
  check_fault("min_lr = 1e-3\n", "a.toml:2", "optimizer.min_lr = 0.001 is above optimizer.lr = 1e-04 (default)",
              "set optimizer.min_lr to less, or optimizer.lr to more");
  check_fault("lr = 0.0\nmin_lr = 1e-300\n", "a.toml:3", "optimizer.min_lr = 1e-300 is above optimizer.lr = 0",
              "set optimizer.min_lr to less");
  CHECK(faults_of("lr = 1e-3\nmin_lr = 1e-3\n").empty());
  check_fault("schedule = \"cosine_restarts\"\nwarmup_steps = 40\nrestarts = 61\n", "a.toml:4",
              "optimizer.restarts = 61 in the 100 steps of the run, 40 of them its warm-up", "set it to less");
  CHECK(faults_of("schedule = \"cosine_restarts\"\nwarmup_steps = 40\nrestarts = 60\n").empty());
  check_fault("warmup_steps = 3\nwarmup_ratio = 0.1\n", "a.toml:3",
              "optimizer.warmup_ratio and optimizer.warmup_steps (",
              "remove one of the two, or set optimizer.warmup_steps = 0");
  CHECK_THAT(faults_of("warmup_steps = 3\nwarmup_ratio = 0.1\n").front(), Contains("a.toml:2) are both set"));
  check_fault("schedule = \"wsd\"\ndecay_steps = 3\ndecay_ratio = 0.1\n", "a.toml:4",
              "optimizer.decay_ratio and optimizer.decay_steps (", "remove one of the two");
  check_fault("schedule = \"wsd\"\n", "a.toml:2", "optimizer.schedule is \"wsd\", and nothing says when",
              "set optimizer.decay_ratio = 0.1");
  check_fault("schedule = \"wsd\"\nwarmup_steps = 81\ndecay_steps = 20\n", "a.toml:4",
              "a warm-up of 81 steps and a decay of 20 do not fit into a run of 100",
              "set optimizer.decay_steps to less");
  check_fault("schedule = \"wsd\"\nwarmup_ratio = 0.6\ndecay_ratio = 0.6\n", "a.toml:4",
              "a warm-up of 60 steps and a decay of 60 do not fit", "set optimizer.decay_ratio to less");
}

TEST_CASE("a warm-up that takes all of a run, which may be a trial, is said with what the learning rate comes to") {
  const test::Folder folder;
  const auto said = [&](const std::string& text, std::int64_t steps) {
    Diagnostics none;
    const auto document = config::load(folder.write("a.toml", "[optimizer]\nlr = 1.0\n" + text), {}, none);
    return setup::long_warmup(config::Options<OptimizerOptions>(document.section("optimizer"), none), steps);
  };
  CHECK_THAT(said("warmup_steps = 9\n", 5),
             Contains("a.toml:3: a warm-up of 9 steps takes all of a run of 5: the learning rate comes to 0.5 and "
                      "never reaches optimizer.lr = 1"));
  CHECK_THAT(said("warmup_ratio = 1.0\n", 5), Contains("a.toml:3: a warm-up of 5 steps takes all of a run of 5"));
  CHECK(said("warmup_steps = 9\n", 0).empty());  // `check` where the data are not there yet
  CHECK(said("warmup_steps = 4\n", 5).empty());
  CHECK(said("", 1).empty());
}

TEST_CASE("each option of a schedule may change in a run that is resumed, and its change is said") {
  const std::vector<std::string> others{"betas", "eps", "weight_decay", "decay", "clip"};
  for (const auto& option : config::Options<OptimizerOptions>::schema())
    CHECK(setup::is_of_schedule(option.key) == (std::find(others.begin(), others.end(), option.key) == others.end()));
  OptimizerOptions options;
  const auto before = setup::schedule_text(options, 100);
  CHECK(setup::schedule_changes(before, before).empty());
  options.schedule = "wsd";
  options.decay_ratio = 0.1;
  options.warmup_ratio = 0.05;
  CHECK(setup::schedule_changes(before, setup::schedule_text(options, 100)) ==
        std::vector<std::string>{"schedule was \"linear\" and is \"wsd\"", "warmup_steps was 0 and is 5",
                                 "decay_steps was null and is 10", "decay_shape was null and is \"linear\""});
}

}  // namespace schedule_test
