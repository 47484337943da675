// Runs that are asked to stop, whatever they are at: all ranks end with one exit code, and the same command continues.
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <thread>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace preempt_test {

using namespace end_to_end;
using capstan::cat;
using capstan::ExitCode;

namespace fs = std::filesystem;

namespace {

constexpr std::chrono::seconds limit(120);
constexpr int requeue = 85;

// One rank of two gets SIGTERM when the fixture plugin of that kind is at that place for the `after`-th time.
struct Place {
  const char* kind;
  const char* place;
  int after;
  const char* when;
  const char* option;  // besides
  int rank = 1;
};

std::string asked_table(const Place& place) {
  return cat("throw_in = \"", place.place, "\"\nafter = ", place.after, "\nhow = \"SIGTERM\"\non_rank = ", place.rank,
             "\n");
}

std::string chosen(const char* kind, const Place& place) {
  return cat("plugin = \"", fixture(kind, "thrower"), "\"\n",
             kind == std::string(place.kind) ? asked_table(place) : std::string());
}

// 24 tiny samples, and 24 to evaluate, of the fixture: what it is asked for when is known.
std::string config(const Place& place) {
  std::vector<std::pair<std::string, std::string>> changes{{"global_batch", "global_batch = 8"},
                                                           {"max_steps", "max_steps = 3"},
                                                           {"plugin = \"squad\"", chosen("data", place)}};
  for (const char* option : {"train = ", "eval = ", "train_samples", "eval_samples", "max_length"})
    changes.emplace_back(option, "");
  std::string more = "[checkpoint]\nevery_steps = 1000\n";
  if (place.kind == std::string("model")) {
    changes.emplace_back("plugin = \"gpt\"", chosen("model", place));
    for (const char* option :
         {"vocab_size", "hidden_size", "num_layers", "num_heads", "ff_dim", "seq_length", "dropout"}) {
      changes.emplace_back(option, "");
    }
  }
  if (place.kind == std::string("monitor") || place.kind == std::string("strategy"))
    more += cat("[", place.kind, ".thrower]\npath = \"", fixture(place.kind, "thrower"), "\"\n", asked_table(place));
  return small_config(changes, more);
}

std::vector<std::string> arguments(const std::string& file, const Place& place, std::vector<std::string> more = {}) {
  std::vector<std::string> words{"run", file, "-n", "2", "run.deterministic=true", "train.eval_batch=2"};
  if (*place.option != '\0') words.emplace_back(place.option);
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

std::string throw_in(const Place& place) {
  const std::string kind = place.kind;
  return cat(kind == "model" || kind == "data" ? kind : kind + ".thrower", ".throw_in");
}

// How the fixture is told to do nothing.
std::string harmless(const Place& place) { return throw_in(place) + "=none"; }

// A resume compares what is learned: other options of data and strategies are accepted by name.
std::vector<std::string> resumes(const Place& place) {
  std::vector<std::string> words{harmless(place), "checkpoint.resume=auto"};
  if (place.kind != std::string("monitor")) words.push_back(cat("checkpoint.accept=[\"", throw_in(place), "\"]"));
  return words;
}

// Before the first step all 24 samples are looked at, and the first one of the evaluation.
constexpr int looked_at = 25;

std::vector<double> evaluations(const fs::path& run) {
  std::vector<double> losses;
  for (const auto& evaluation : read_metrics(run).evaluations) {
    if (evaluation.contains("loss")) losses.push_back(evaluation.at("loss").get<double>());
  }
  return losses;
}

std::size_t checkpoints(const fs::path& run) {
  std::size_t count = 0;
  if (!fs::exists(run / "checkpoints")) return 0;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
    count += entry.path().filename().string().starts_with("step-") ? 1 : 0;
  }
  return count;
}

std::vector<std::string> checkpoint_names(const fs::path& run) {
  std::vector<std::string> names;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints")) {
    if (entry.is_directory()) names.push_back(entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::string probe(const std::string& options) {
  return cat("[monitor.probe]\npath = \"", fixture("monitor", "probe"), "\"\n", options,
             "\n[checkpoint]\nevery_steps = 1000\n");
}

std::string epoch_in(int seconds) {
  const auto now = std::chrono::system_clock::now() + std::chrono::seconds(seconds);
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch()).count());
}

}  // namespace

TEST_CASE(
    "a SIGTERM to one rank, whatever it is at, ends all with the code that asks for a requeue; the run continues") {
  // The data fixture is asked for 4 samples a step and rank, a step ahead; then for two at a time of the 24 to
  // evaluate.
  const auto place =
      GENERATE(Place{"data", "check", 0, "while reading the configuration", ""},
               Place{"data", "get", looked_at + 3, "while tokenizing", "data.cache=cache", 0},
               Place{"strategy", "wrap", 0, "after step 0", ""}, Place{"monitor", "step_ended", 0, "after step ", ""},
               Place{"data", "get", looked_at + 12, "after step 3", ""},
               Place{"data", "score", 2, "after step 3", "train.generate_samples=24"});
  INFO(place.kind << " " << place.place);
  const Workspace work;
  const auto file = work.write("a.toml", config(place));
  const auto stopped = Program(work.folder(), arguments(file, place)).wait(limit);
  INFO(stopped.out << stopped.err);
  REQUIRE_FALSE(stopped.timed_out);
  CHECK(stopped.code == requeue);
  CHECK_THAT(stopped.err, Contains(cat("capstan: stopped by SIGTERM ", place.when)) &&
                              Contains("; exit code 85 asks to be queued again\n"));
  CHECK(stopped.err.find("error") == std::string::npos);

  const auto straight = work.run(arguments(file, place, {harmless(place), "run.name=straight"}));
  const auto resumed = work.run(arguments(file, place, resumes(place)));
  INFO(straight.all() << resumed.all());
  REQUIRE(straight.code == 0);
  REQUIRE(resumed.code == 0);
  const auto run = work.folder() / "runs/small";
  CHECK(read_metrics(run).all("loss") == read_metrics(work.folder() / "runs/straight").all("loss"));
  CHECK(evaluations(run) == evaluations(work.folder() / "runs/straight"));
  CHECK(bit_equal(read_weights(run), read_weights(work.folder() / "runs/straight")));
}

TEST_CASE("a run that is stopped inside the evaluation of its best step keeps that step") {
  // Samples of three steps have been drawn by then. Nothing is learnt, and of equal evaluations the first is the best.
  const Place place{"data", "get", looked_at + 14, "after step 2", "train.max_steps=6"};
  const Workspace work;
  const auto file = work.write("a.toml", config(place));
  const std::vector<std::string> best{"train.eval_every=2", "checkpoint.keep=1", "checkpoint.keep_best=true",
                                      "optimizer.lr=0.0"};
  const auto with_best = [&](std::vector<std::string> more) {
    more.insert(more.begin(), best.begin(), best.end());
    return arguments(file, place, more);
  };
  const auto stopped = Program(work.folder(), with_best({})).wait(limit);
  INFO(stopped.out << stopped.err);
  REQUIRE(stopped.code == requeue);
  CHECK_THAT(stopped.err, Contains("capstan: stopped by SIGTERM after step 2;"));
  const auto run = work.folder() / "runs/small";
  REQUIRE(checkpoint_names(run) == std::vector<std::string>{"step-00000002"});

  const auto straight = work.run(with_best({harmless(place), "run.name=straight"}));
  const auto resumed = work.run(with_best(resumes(place)));
  INFO(straight.all() << resumed.all());
  REQUIRE(straight.code == 0);
  REQUIRE(resumed.code == 0);
  CHECK(checkpoint_names(run) == std::vector<std::string>{"step-00000002", "step-00000006"});
  CHECK(checkpoint_names(run) == checkpoint_names(work.folder() / "runs/straight"));
  const auto best_of = [](const fs::path& folder) {
    auto saved = read_json(folder / "summary.json").at("checkpoints").at("best");
    saved.erase("path");
    return saved;
  };
  CHECK(best_of(run) == best_of(work.folder() / "runs/straight"));
  CHECK(evaluations(run) == evaluations(work.folder() / "runs/straight"));
}

TEST_CASE("a SIGTERM while parameters are made stops there") {
  // The fixture's step hooks are made only for the run, before its parameters are filled.
  const Place place{"strategy", "step", 0, "while loading the model", ""};
  const Workspace work;
  const auto file = work.write("a.toml", config(place));
  const auto stopped = Program(work.folder(), arguments(file, place)).wait(limit);
  INFO(stopped.err);
  REQUIRE_FALSE(stopped.timed_out);
  CHECK(stopped.code == requeue);
  CHECK_THAT(stopped.err, Contains("capstan: stopped by SIGTERM while loading the model;"));
  CHECK(checkpoints(work.folder() / "runs/small") == 0);
}

TEST_CASE(
    "every signal of a scheduler, and of a terminal that closes, stops a run with a checkpoint of its last step") {
  const int number = GENERATE(SIGTERM, SIGUSR1, SIGUSR2, SIGHUP);
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"max_steps", "max_steps = 1000000"}}, probe("pause_s = 0.02")));
  Program program(work.folder(), {"run", file, "-n", "3", "train.eval_every=1000000"});
  REQUIRE(program.wait_for("global_step: 3 "));
  program.signal(SIGCONT);  // SLURM sends it with SIGTERM
  program.signal(number);
  const auto ended = program.wait(limit);
  INFO(ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == requeue);
  const auto run = work.folder() / "runs/small";
  const auto steps = read_metrics(run).steps.size();
  CHECK(ended.err == cat("capstan: stopped by SIG", sigabbrev_np(number), " after step ", steps,
                         "; exit code 85 asks to be queued again\n"));
  CHECK(checkpoints(run) == 1);
  CHECK_FALSE(fs::exists(run / "weights"));
  CHECK(read_json(run / "summary.json").at("steps") == steps);
}

TEST_CASE("the exit code is an option; a person's SIGINT has its own") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"max_steps", "max_steps = 1000000"}}, probe("pause_s = 0.02")));
  const auto code_of = [&](int number, const std::string& option) {
    Program program(work.folder(),
                    {"run", file, "-n", "2", "train.global_batch=8", "train.eval_every=1000000", option});
    REQUIRE(program.wait_for("global_step: 1 "));
    program.signal(number);
    return program.wait(limit);
  };
  CHECK(code_of(SIGUSR1, "run.requeue_exit_code=7").code == 7);
  CHECK(code_of(SIGUSR1, "run.requeue_exit_code=0").code == 0);
  const auto person = code_of(SIGINT, "run.requeue_exit_code=7");
  CHECK(person.code == static_cast<int>(ExitCode::interrupted));
  CHECK_THAT(person.err,
             Contains("capstan: stopped by SIGINT after step ") &&
                 Contains("; exit code 130; checkpoint.resume=auto continues from its newest checkpoint\n"));
}

TEST_CASE("a second signal, well after the first, begins no save") {
  const Workspace work;
  const auto file = work.write(
      "a.toml", small_config({{"max_steps", "max_steps = 1000000"}}, probe("rank = 1\nstep = 3\nhow = \"long\"")));
  Program program(work.folder(), {"run", file, "-n", "3", "train.eval_every=1000000"});
  REQUIRE(program.wait_for("global_step: 3 "));
  program.signal(SIGTERM);
  program.signal(SIGTERM);  // as SLURM does: one request
  std::this_thread::sleep_for(std::chrono::milliseconds(3200));
  program.signal(SIGUSR2);
  const auto ended = program.wait(limit);
  INFO(ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == requeue);
  CHECK_THAT(ended.err, Contains("capstan: stopped by SIGTERM after step "));
  CHECK(checkpoints(work.folder() / "runs/small") == 0);
  CHECK_FALSE(fs::exists(work.folder() / "runs/small/weights"));
}

TEST_CASE("a run stops in time for the end of its SLURM job, not before, and continues when the job starts again") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({}, probe("pause_s = 0.05")));
  const std::vector<std::string> words{"run", file, "-n", "2", "train.global_batch=8", "run.deterministic=true"};
  const auto straight = work.run(words);
  INFO(straight.err);
  REQUIRE(straight.code == 0);
  const auto in_job = [&](int seconds, const char* restarts) {
    return work.run(
        words,
        {{"SLURM_JOB_ID", "4711"}, {"SLURM_JOB_END_TIME", epoch_in(seconds)}, {"SLURM_RESTART_COUNT", restarts}});
  };
  // Less than what every end needs: it stops as soon as it knows how long a step takes, after at least one.
  const auto ended = in_job(14, "0");
  INFO(ended.err);
  CHECK(ended.code == requeue);
  CHECK_THAT(ended.err, Contains("capstan: stopped since the job's time is nearly over after step "));
  const auto run = work.folder() / "runs/small-2";  // small is the straight run's
  const auto steps = read_metrics(run).steps.size();
  CHECK(steps >= 1);
  CHECK(steps < 8);
  CHECK(checkpoints(run) == 1);

  const auto again = in_job(100000, "1");
  INFO(again.err);
  CHECK(again.code == 0);
  CHECK_THAT(again.out, Contains("resuming from "));
  CHECK_FALSE(fs::exists(work.folder() / "runs/small-3"));
  CHECK(read_metrics(run).all("loss") == read_metrics(work.folder() / "runs/small").all("loss"));
}

}  // namespace preempt_test
