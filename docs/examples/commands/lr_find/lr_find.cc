// A learning-rate finder (Smith 2017): rates that grow from step to step by one factor, and the loss at each.
#include <capstan/base/exit_code.h>
#include <capstan/base/terminal.h>
#include <capstan/base/text.h>
#include <capstan/command.h>
#include <capstan/ranks/model_session.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace {

using namespace capstan;

struct Asked {
  std::string config;
  std::vector<std::string> overrides;
  int ranks = 0;
  std::int64_t steps = 100;
  double from = 1e-7;
  double to = 1;
};

int find(ranks::ModelSession& session, const Asked& asked) {
  constexpr double diverged = 4;  // times the lowest loss
  double lowest = std::numeric_limits<double>::infinity();
  for (std::int64_t step = 0; step < asked.steps; ++step) {
    const auto done = static_cast<double>(step) / static_cast<double>(asked.steps - 1);
    const auto rate = asked.from * std::pow(asked.to / asked.from, done);
    const auto loss = session.step(rate);  // the same on all ranks, which therefore end together
    if (session.rank().first()) terminal::print(cat(number_text(rate), " ", number_text(loss), "\n"));
    lowest = std::min(lowest, loss);
    if (!(loss <= diverged * lowest)) break;
  }
  return static_cast<int>(ExitCode::success);
}

int run(const command::Call& call) {
  Asked asked;
  command::Arguments arguments;
  arguments.configuration(asked.config, asked.overrides);
  arguments.ranks(asked.ranks);
  arguments.value("--steps", asked.steps, "how many rates are tried (default 100)").range(2, 1'000'000);
  arguments.value("--from", asked.from, "the first rate (default 1e-7)").positive();
  arguments.value("--to", asked.to, "the last one (default 1)").positive();
  if (const auto code = arguments.read(call)) return *code;
  auto options = asked.overrides;
  options.push_back(cat("train.max_steps=", asked.steps));
  return ranks::with_model({call, asked.config, options, asked.ranks}, {asked.config, {}, {}, {}},
                           ranks::ModelUse::train, [&](ranks::ModelSession& session) { return find(session, asked); });
}

}  // namespace

CAPSTAN_COMMAND("lr_find", "0.1.0", "the loss at learning rates that grow from step to step", run)
