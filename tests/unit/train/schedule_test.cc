#include "train/schedule.h"

#include <capstan_catch.h>

#include <cstdio>

using capstan::setup::OptimizerOptions;
using capstan::train::learning_rate;

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
