// A plugin that throws in one phase or hook, on one rank of two: all ranks end with its message.
#include <capstan/base/exit_code.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"

using namespace end_to_end;
using capstan::cat;
using capstan::ExitCode;

namespace {

// Far above what a run takes to end, since this machine may be busy, and far below comm.timeout_s.
constexpr std::chrono::seconds limit(100);

struct Place {
  const char* kind;
  const char* place;
  const char* said;  // about where it was
};

using Changes = std::vector<std::pair<std::string, std::string>>;

std::string table(const Place& place, int rank) {
  return cat("throw_in = \"", place.place, "\"\non_rank = ", rank, "\n");
}

std::string chosen(const Place& place, int rank) {
  return cat("plugin = \"", fixture(place.kind, "thrower"), "\"\n", table(place, rank));
}

std::string config(const Place& place, int rank) {
  const std::string kind = place.kind;
  Changes changes{
      {"global_batch", "global_batch = 8"}, {"max_steps", "max_steps = 2"}, {"eval_samples", "eval_samples = 4"}};
  if (kind == "model") {
    changes.push_back({"plugin = \"gpt\"", chosen(place, rank)});
    for (const char* option :
         {"vocab_size", "hidden_size", "num_layers", "num_heads", "ff_dim", "seq_length", "dropout"}) {
      changes.push_back({option, ""});
    }
    return small_config(changes);
  }
  if (kind == "data") {
    changes.pop_back();
    changes.push_back({"plugin = \"squad\"", chosen(place, rank)});
    for (const char* option : {"train = ", "eval = ", "train_samples", "eval_samples", "max_length"})
      changes.push_back({option, ""});
    return small_config(changes);
  }
  if (kind == "optimizer") {
    changes.push_back({"lr = ", cat("lr = 1e-2\n", chosen(place, rank))});
    return small_config(changes);
  }
  if (kind == "objective") return small_config(changes, cat("[objective]\n", chosen(place, rank)));
  if (kind == "tokenizer") return small_config(changes, cat("[tokenizer]\n", chosen(place, rank)));
  return small_config(changes,
                      cat("[", kind, ".thrower]\npath = \"", fixture(kind, "thrower"), "\"\n", table(place, rank)));
}

Outcome run(const Place& place, int rank, const std::vector<std::string>& more = {}) {
  const Workspace work;
  std::vector<std::string> arguments{"run", work.write("a.toml", config(place, rank)), "-n", "2"};
  arguments.insert(arguments.end(), more.begin(), more.end());
  Program program(work.folder(), arguments);
  auto ended = program.wait(limit);
  CHECK(program.children().empty());
  return ended;
}

// Before anything is allocated: said once for all ranks, with the rank, and nothing else.
void check_refused(const Place& place, int rank) {
  const auto ended = run(place, rank);
  INFO(place.kind << " " << place.place << " on rank " << rank << "\n" << ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(ended.err, Contains(cat("no luck in ", place.place, "\n    fix: try again\n")));
  CHECK_THAT(ended.err, Contains(cat("while plugin 'thrower'")) && Contains(cat("was in phase ", place.said, "\n")));
  CHECK_THAT(ended.err, Contains(cat("on rank ", rank, " of 2\n")));
  CHECK(count(ended.err, "no luck") == 1);
}

// In a run: the rank itself says it, and the other one that it was told.
void check_ended(const Place& place, int rank, const std::vector<std::string>& more = {}) {
  const auto ended = run(place, rank, more);
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

TEST_CASE("a plugin that throws before anything is allocated, on one rank only") {
  const auto place = GENERATE(values<Place>({{"strategy", "make", "construction"},
                                             {"strategy", "mesh", "mesh"},
                                             {"strategy", "claim", "claim"},
                                             {"strategy", "shard", "shard"},
                                             {"strategy", "check", "check"},
                                             {"optimizer", "make", "construction"},
                                             {"objective", "make", "construction"},
                                             {"objective", "check", "check"},
                                             {"objective", "plan", "plan"},
                                             {"model", "make", "construction"},
                                             {"model", "check", "check"},
                                             {"model", "facts", "facts"},
                                             {"data", "make", "construction"},
                                             {"data", "check", "check"},
                                             {"data", "max_length", "max_length"},
                                             {"data", "open", "open"},
                                             {"data", "size", "size"},
                                             {"tokenizer", "make", "construction"},
                                             {"tokenizer", "open", "open"},
                                             {"tokenizer", "files", "files"},
                                             {"tokenizer", "vocab_size", "vocab_size"},
                                             {"monitor", "make", "construction"}}));
  check_refused(place, 1);
}

TEST_CASE("a strategy that throws in a phase of setting up, on one rank only") {
  const auto place = GENERATE(values<Place>({{"strategy", "wrap", "wrap of unit blocks.1"},
                                             {"strategy", "recompute", "recompute of unit blocks.1"},
                                             {"strategy", "step", "step"}}));
  check_ended(place, GENERATE(0, 1));
}

TEST_CASE("a plugin that throws while units are built, changed, placed or predicted, on one rank only") {
  const auto place = GENERATE(values<Place>({{"model", "build", "build"},
                                             {"optimizer", "states", "states of "},
                                             {"strategy", "structure", "structure"},
                                             {"strategy", "place", "placement of unit blocks.1"}}));
  check_named(place, 1);
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
  const auto ended = run(place, GENERATE(0, 1));
  INFO(place.place << "\n" << ended.err);
  CHECK(ended.code == 0);
  CHECK_THAT(ended.err,
             Contains("monitor 'thrower' is disabled on this rank from now on, the run continues: no luck in "));
  CHECK_THAT(ended.err, Contains(cat("while plugin 'thrower' was in phase ", place.said)));
  CHECK(count(ended.err, "no luck") == 1);
  CHECK_THAT(ended.out, Contains("'train_loss'"));
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
