// A plugin that throws in one phase or hook, on one rank of two: all ranks end with its message.
#include <capstan/base/exit_code.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"
#include "support/thrower.h"

namespace plugin_faults_test {

using namespace end_to_end;
using capstan::cat;
using capstan::ExitCode;

namespace {

using Place = test::ThrowingPlace;

std::string config(const Place& place, int rank) {
  const auto [changes, more] = test::thrower_changes(place, fixture(place.kind, "thrower"), rank);
  return small_config(changes, more);
}

std::vector<std::string> arguments(const Workspace& work, const Place& place, int rank,
                                   const std::vector<std::string>& more = {}) {
  std::vector<std::string> words{"run", work.write("a.toml", config(place, rank)), "-n", "2"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

Outcome run(const Place& place, int rank, const std::vector<std::string>& more = {}) {
  const Workspace work;
  return work.run(arguments(work, place, rank, more));
}

// The same by the program and its launcher, after whose end no process is left.
Outcome start(const Place& place, int rank) {
  // Far above what a run takes to end, since this machine may be busy, and far below comm.timeout_s.
  constexpr std::chrono::seconds limit(100);
  const Workspace work;
  Program program(work.folder(), arguments(work, place, rank));
  auto ended = program.wait(limit);
  CHECK(program.children().empty());
  return ended;
}

// Before anything is allocated: said once for all ranks, with the rank, and nothing else.
void check_refused(const Place& place, int rank, const Outcome& ended) {
  INFO(place.kind << " " << place.place << " on rank " << rank << "\n" << ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(ended.err, Contains(cat("no luck in ", place.place, "\n    fix: try again\n")));
  CHECK_THAT(ended.err, Contains(cat("while plugin 'thrower'")) && Contains(cat("was in phase ", place.said, "\n")));
  CHECK_THAT(ended.err, Contains(cat("on rank ", rank, " of 2\n")));
  CHECK(count(ended.err, "no luck") == 1);
}

// In a run: the rank itself says it, and the other one that it was told.
void check_ended(const Place& place, int rank, const Outcome& ended) {
  INFO(place.kind << " " << place.place << " on rank " << rank << "\n" << ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == static_cast<int>(ExitCode::failure));
  const auto message = cat("no luck in ", place.place, "\n");
  const auto context = cat("while plugin 'thrower' was in phase ", place.said);
  CHECK(count(ended.err, message) >= 2);
  CHECK(count(ended.err, context) >= 2);
  CHECK_THAT(ended.err, Contains(cat("running as rank ", rank, " of 2")));
  CHECK_THAT(ended.err, Contains(cat("rank ", rank, " on ")) && Contains(cat(" failed: ", message)));
}

void check_ended(const Place& place, int rank, const std::vector<std::string>& more = {}) {
  check_ended(place, rank, run(place, rank, more));
}

// A monitor's failure is a warning, said once.
void check_continued(const Place& place, const Outcome& ended) {
  INFO(place.place << "\n" << ended.err);
  CHECK(ended.code == 0);
  CHECK_THAT(ended.err,
             Contains("monitor 'thrower' is disabled on this rank from now on, the run continues: no luck in "));
  CHECK_THAT(ended.err, Contains(cat("while plugin 'thrower' was in phase ", place.said)));
  CHECK(count(ended.err, "no luck") == 1);
  CHECK_THAT(ended.out, Contains("model for transformers: "));
}

// Units are made while the configuration is judged, on all ranks at once.
void check_named(const Place& place, int rank) {
  const auto ended = run(place, rank);
  INFO(place.kind << " " << place.place << " on rank " << rank << "\n" << ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK((ended.code == static_cast<int>(ExitCode::usage) || ended.code == static_cast<int>(ExitCode::failure)));
  CHECK_THAT(ended.err, Contains(cat("no luck in ", place.place,
                                     "\n    fix: try again\n    while plugin 'thrower' was in phase ", place.said)));
  CHECK_THAT(ended.err, Contains(cat("rank ", rank, " of 2\n")));
}

}  // namespace

// All such places: tests/unit/ranks/thrown_test.cc.
TEST_CASE("a plugin that throws before anything is allocated, on one rank only") {
  for (const auto& [place, rank] : std::vector<std::pair<Place, int>>{{{"strategy", "check", "check"}, 1},
                                                                      {{"data", "open", "open"}, 1},
                                                                      {{"tokenizer", "vocab_size", "vocab_size"}, 0}})
    check_refused(place, rank, run(place, rank));
}

TEST_CASE("ranks that the launcher has started end so too: before anything is allocated, in a hook, and not at all") {
  const Place data{"data", "open", "open"};
  check_refused(data, 1, start(data, 1));
  const Place hook{"strategy", "after_forward", "after_forward of unit blocks.1"};
  check_ended(hook, 1, start(hook, 1));
  const Place monitor{"monitor", "step_ended", "step_ended"};
  check_continued(monitor, start(monitor, 1));
}

TEST_CASE("a strategy that throws in a phase of setting up, on one rank only") {
  check_ended({"strategy", "wrap", "wrap of unit blocks.1"}, 0);
  check_ended({"strategy", "recompute", "recompute of unit blocks.1"}, 1);
  check_ended({"strategy", "step", "step"}, 0);
}

TEST_CASE("a plugin that throws while units are placed, on one rank only") {
  check_named({"strategy", "place", "placement of unit blocks.1"}, 1);
}

TEST_CASE("a strategy that throws in a hook, on one rank only") {
  const auto place = GENERATE(values<Place>({{"strategy", "before_forward", "before_forward of unit blocks.1"},
                                             {"strategy", "after_forward", "after_forward of unit blocks.1"},
                                             {"strategy", "before_backward", "before_backward of unit blocks.1"},
                                             {"strategy", "after_backward", "after_backward of unit blocks.1"},
                                             {"strategy", "end_backward", "end_backward of unit blocks.1"},
                                             {"strategy", "reduce", "reduce of "},
                                             {"strategy", "begin", "begin"},
                                             {"strategy", "after_step", "after_step of step 0"}}));
  check_ended(place, 1);
}

TEST_CASE("a strategy that throws around a save or an evaluation, on one rank only") {
  check_ended({"strategy", "before_save", "before_save of step 0"}, 1, {"checkpoint.every_steps=1"});
  check_ended({"strategy", "evaluation_weights", "evaluation_weights of step 1"}, 1);
}

TEST_CASE("a model, an optimizer, an objective, a data source or a tokenizer that throws, on one rank only") {
  const auto place = GENERATE(values<Place>({{"model", "forward", "forward of unit head"},
                                             {"optimizer", "apply", "apply"},
                                             {"objective", "counts", "counts"},
                                             {"objective", "sums", "sums"},
                                             {"data", "get", "get of sample "},
                                             {"tokenizer", "encode", "encode"}}));
  check_ended(place, 1);
}

TEST_CASE("a data source that throws in a check is said with its sample and where it is chosen") {
  const Workspace work;
  const auto file = work.write("a.toml", config({"data", "get", ""}, 0));
  const auto said = work.run({"check", file});
  INFO(said.all());
  CHECK(said.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(said.err, Contains("a.toml:") &&
                           Contains(": no luck in get\n    fix: try again\n    while plugin 'thrower' was in phase get "
                                    "of sample 0 of the training data"));
}

TEST_CASE("a monitor that throws is disabled with a warning, and the run continues") {
  const auto place = GENERATE(values<Place>({{"monitor", "run_started", "run_started"},
                                             {"monitor", "tracer", "tracer"},
                                             {"monitor", "step_ended", "step_ended"},
                                             {"monitor", "eval_ended", "eval_ended"},
                                             {"monitor", "summary", "summary"},
                                             {"monitor", "run_ended", "run_ended"}}));
  check_continued(place, run(place, place.place[0] == 'r' ? 0 : 1));  // each rank in some
}

TEST_CASE("a data source that throws while it scores an answer") {
  check_ended({"data", "score", "score"}, 1,
              {"train.generate_samples=4", "train.max_new_tokens=2", "train.eval_batch=2"});
}

TEST_CASE("the plugins that throw do nothing else") {
  for (const char* kind : {"strategy", "model", "optimizer", "objective", "data", "tokenizer", "monitor"}) {
    const auto ended = run({kind, "", ""}, 1);
    INFO(kind << "\n" << ended.err);
    CHECK(ended.code == 0);
  }
}

}  // namespace plugin_faults_test
