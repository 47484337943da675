// Ctrl-C in a run whose options save nothing: it saves once, on all ranks, and prints the command that continues it.
#include <capstan/base/exit_code.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <chrono>
#include <csignal>
#include <thread>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace interrupt_test {

using namespace end_to_end;
using capstan::cat;
using capstan::ExitCode;

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds limit(120);

// Every word after "capstan run" of the last line, as a shell splits it.
std::vector<std::string> last_command(const std::string& err) {
  std::vector<std::string> words;
  for (auto word : capstan::split(capstan::split(capstan::trim(err), '\n').back(), ' ')) {
    std::erase(word, '\'');
    words.push_back(word);
  }
  words.erase(words.begin());  // the program
  return words;
}

}  // namespace

TEST_CASE("Ctrl-C saves a checkpoint where nothing else does, and its last line is the command that continues it") {
  const auto ranks = GENERATE(1, 3);
  INFO(ranks);
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"max_steps", "max_steps = 1000000"}}));
  Program program(work.folder(), {"run", file, "-n", std::to_string(ranks), "train.global_batch=12",
                                  "train.eval_every=1000000", "run.deterministic=true"});
  REQUIRE(program.wait_for("global_step: 2 "));
  program.signal(SIGINT);
  const auto ended = program.wait(limit);
  INFO(ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == static_cast<int>(ExitCode::interrupted));
  const auto run = work.folder() / "runs/small";
  const auto steps = read_metrics(run).steps.size();
  CHECK(count(ended.err, "a second one ends it at once\n") == 1);
  CHECK_THAT(ended.err, Contains(cat("capstan: stopped by SIGINT after step ", steps, "; exit code 130; ")));
  auto number = std::to_string(steps);
  number.insert(0, 8 - number.size(), '0');
  CHECK(read_json(run / "checkpoints" / ("step-" + number) / "manifest.json").at("world_size") == ranks);
  CHECK_FALSE(fs::exists(run / "weights"));
  auto words = last_command(ended.err);
  words.push_back(cat("train.max_steps=", steps + 2));
  const auto resumed = work.run(words);
  INFO(resumed.all());
  REQUIRE(resumed.code == 0);
  CHECK_THAT(resumed.out, Contains(cat("after step ", steps, " of ", steps + 2)));
  CHECK(read_metrics(run).steps.size() == steps + 2);
}

TEST_CASE("a second Ctrl-C ends a run at once, whatever it is at") {
  const Workspace work;
  // At that step a monitor sleeps for eight seconds.
  const auto file = work.write("a.toml", small_config({{"max_steps", "max_steps = 1000000"}},
                                                      cat("[monitor.probe]\npath = \"", fixture("monitor", "probe"),
                                                          "\"\nrank = 0\nstep = 2\nhow = \"long\"\n")));
  Program program(work.folder(), {"run", file, "train.eval_every=1000000"});
  REQUIRE(program.wait_for("global_step: 2 "));
  program.signal(SIGINT);
  std::this_thread::sleep_for(std::chrono::milliseconds(600));
  CHECK(program.running());
  const auto begin = std::chrono::steady_clock::now();
  program.signal(SIGINT);
  const auto ended = program.wait(limit);
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(4));
  CHECK(ended.code == static_cast<int>(ExitCode::interrupted));
  CHECK_FALSE(fs::exists(work.folder() / "runs/small/checkpoints"));
}

}  // namespace interrupt_test
