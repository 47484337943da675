// A run's folder has one writer: a second run that would continue in it is refused before it has touched anything.
#include <capstan/base/exit_code.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <csignal>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace one_writer_test {

using namespace end_to_end;
using capstan::cat;
using capstan::ExitCode;

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds limit(120);

std::string endless() {
  return small_config({{"max_steps", "max_steps = 1000000"}, {"global_batch", "global_batch = 8"}},
                      cat("[monitor.probe]\npath = \"", fixture("monitor", "probe"),
                          "\"\npause_s = 0.05\n[checkpoint]\nevery_steps = 5\nresume = \"auto\"\n"));
}

}  // namespace

TEST_CASE("two runs of one name: the second is refused, the first continues; what kill -9 left is continued with") {
  const Workspace work;
  const auto file = work.write("a.toml", endless());
  const std::vector<std::string> words{"run", file, "-n", "2", "train.eval_every=1000000"};
  const auto run = work.folder() / "runs/small";
  Program first(work.folder(), words);
  REQUIRE(first.wait_for("global_step: 11 "));
  const auto writer = first.rank(0);

  const auto second = work.run(words);
  INFO(second.all());
  CHECK(second.code == static_cast<int>(ExitCode::failure));
  CHECK_THAT(second.err, Contains(cat("another run is writing to this folder: process ", writer, " on ")) &&
                             Contains("with another run.name this run gets a folder of its own"));
  CHECK_THAT(second.err, !Contains("bug"));
  REQUIRE(first.running());
  REQUIRE(first.wait_for("global_step: 21 "));

  REQUIRE(kill(writer, SIGKILL) == 0);
  (void)first.wait(limit);
  CHECK(fs::exists(run / "running"));
  const auto steps = read_metrics(run).steps;
  REQUIRE(steps.size() > 20);
  for (std::size_t i = 0; i < steps.size(); ++i) CHECK(steps[i].at("step") == i);  // nothing was cut off meanwhile

  Program third(work.folder(), words);
  REQUIRE(third.wait_for("resuming from ", std::chrono::seconds(40)));  // on this host no sign of life is waited for
  third.signal(SIGTERM);
  const auto ended = third.wait(limit);
  INFO(ended.all());
  CHECK(ended.code == 85);
  CHECK_FALSE(fs::exists(run / "running"));
  const auto verified = work.run({"checkpoint", "verify", "runs/small"});
  INFO(verified.all());
  CHECK(verified.code == 0);
}

TEST_CASE("a run that fails gives its folder back") {
  const Workspace work;
  const auto file = work.write("a.toml", endless());
  const std::vector<std::string> words{"run", file, "-n", "2", "train.eval_every=1000000"};
  Program first(work.folder(), words);
  REQUIRE(first.wait_for("global_step: 6 "));
  REQUIRE(fs::exists(work.folder() / "runs/small/running"));
  REQUIRE(kill(first.rank(1), SIGKILL) == 0);
  (void)first.wait(limit);
  CHECK_FALSE(fs::exists(work.folder() / "runs/small/running"));
}

}  // namespace one_writer_test
