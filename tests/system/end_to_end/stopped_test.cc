// A rank that stops without a word (SIGSTOP: what a hung driver, a dead file system or a suspended machine look like)
// or dies, in training and in the middle of a save. Over Gloo; on GPUs over NCCL: test_end_to_end '[.gpu]'.
#include <capstan/base/exit_code.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <csignal>
#include <iostream>
#include <thread>

#include "end_to_end/gpus.h"
#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace stopped_test {

using namespace end_to_end;
using capstan::cat;
using capstan::ExitCode;

namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

// comm.silence_s, what the launcher gives the others to end, and as much again on a busy machine.
constexpr std::chrono::seconds limit(100);
constexpr const char* silence = "[comm]\nsilence_s = 5.0\n";
constexpr const char* sharded = "[strategy.fsdp]\nmode = \"full_shard\"\n";

struct Struck {
  Outcome outcome;
  std::vector<pid_t> left;  // processes of the run that outlived it
};

// Sends the signal to a rank and waits for the end of all.
Struck strike(Program& program, int rank, int signal) {
  const auto started = program.children();
  const auto victim = program.rank(rank);
  REQUIRE(victim > 0);
  const auto begin = Clock::now();
  REQUIRE(kill(victim, signal) == 0);
  Struck struck;
  struck.outcome = program.wait(limit);
  struck.left = still_running(started);
  std::cout << "rank " << rank << " got SIG" << sigabbrev_np(signal) << "; all have ended "
            << std::chrono::duration<double>(Clock::now() - begin).count() << " s later" << std::endl;
  return struck;
}

std::string endless(const std::string& device, int ranks) {
  return small_config({{"max_steps", "max_steps = 1000000"},
                       {"device", cat("device = \"", device, "\"")},
                       {"hidden_size", "hidden_size = 48"},
                       {"ff_dim", "ff_dim = 192"},
                       {"global_batch", cat("global_batch = ", 4 * ranks)}},
                      cat(sharded, silence));
}

Struck strike_in_training(const std::string& device, int ranks, int rank, int signal) {
  const Workspace work;
  const auto file = work.write("a.toml", endless(device, ranks));
  Program program(work.folder(), {"run", file, "-n", std::to_string(ranks), "train.eval_every=1000000"});
  REQUIRE(program.wait_for("global_step: 3 "));
  return strike(program, rank, signal);
}

void check_stopped(const std::string& device, int ranks, int rank) {
  const auto struck = strike_in_training(device, ranks, rank, SIGSTOP);
  INFO("rank " << rank << "\n" << struck.outcome.err);
  REQUIRE_FALSE(struck.outcome.timed_out);
  CHECK(struck.outcome.code == static_cast<int>(ExitCode::peer_failed));
  CHECK_THAT(struck.outcome.err, Contains(cat("rank ", rank, " on ")));
  CHECK_THAT(struck.outcome.err, Contains(" failed: it has not been heard of for 5 s") ||
                                     Contains(" failed: it has not been heard of for 6 s"));
  CHECK(struck.left.empty());
}

void check_killed(const std::string& device, int ranks, int rank) {
  const auto struck = strike_in_training(device, ranks, rank, SIGKILL);
  INFO("rank " << rank << "\n" << struck.outcome.err);
  REQUIRE_FALSE(struck.outcome.timed_out);
  CHECK(struck.outcome.code == 128 + SIGKILL);
  CHECK_THAT(struck.outcome.err, Contains(cat("rank ", rank, " was killed by signal 9 (SIGKILL)")));
  CHECK(struck.left.empty());
}

// Three ranks that save some 23 MB each after every second step: long enough to stop one of them meanwhile.
std::string saves_often() {
  return small_config({{"lr", "lr = 1e-2\nschedule = \"constant\""},
                       {"vocab_size", "vocab_size = 60000"},
                       {"hidden_size", "hidden_size = 96"},
                       {"plugin = \"squad\"", "plugin = \"synthetic\""},
                       {"train = ", "samples = 240"},
                       {"eval = ", ""},
                       {"train_samples", ""},
                       {"eval_samples", ""},
                       {"max_length", "max_length = 9"}},
                      cat(sharded, silence, "[checkpoint]\nevery_steps = 2\nkeep = 0\n"));
}

// Is this rank's file being written to the temporary folder of a checkpoint of that step?
bool is_writing(const fs::path& run, const std::string& step, int rank) {
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(run / "checkpoints", none)) {
    if (!entry.path().filename().string().starts_with(step + ".tmp-")) continue;
    for (const auto& file : fs::directory_iterator(entry.path(), none)) {
      const auto name = file.path().filename().string();
      if (name.starts_with(cat("weights-0000", rank)) && !name.ends_with(".safetensors")) return true;
    }
  }
  return false;
}

// Stops a rank while it writes its part of the checkpoint of step 4, where the machine lets that happen in time.
bool stopped_while_writing(const Program& program, const fs::path& run, int rank) {
  const auto victim = program.rank(rank);
  const auto deadline = Clock::now() + limit;
  while (!is_writing(run, "step-00000004", rank)) {
    if (Clock::now() > deadline || fs::exists(run / "checkpoints/step-00000004")) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  REQUIRE(kill(victim, SIGSTOP) == 0);
  return is_writing(run, "step-00000004", rank);
}

void check_saved_before(const Workspace& work, const std::string& file, const std::vector<std::string>& run_options) {
  const auto run = work.folder() / "runs/small";
  CHECK(fs::exists(run / "checkpoints/step-00000002/manifest.json"));
  CHECK_FALSE(fs::exists(run / "checkpoints/step-00000004"));
  const auto verified = work.run({"checkpoint", "verify", "runs/small"});
  INFO(verified.all());
  CHECK(verified.code == 0);
  auto words = run_options;
  // No rank stops in these runs, but on a busy machine a rank may be silent for longer than the struck ones wait.
  words.insert(words.end(), {"checkpoint.resume=auto", "train.max_steps=6", "comm.silence_s=60"});
  const auto resumed = work.run(words);
  INFO(resumed.all());
  REQUIRE(resumed.code == 0);
  CHECK_THAT(resumed.out, Contains("resuming from ") && Contains("after step 2 of 6"));
  const auto straight = work.run({"run", file, "-n", "3", "run.deterministic=true", "run.name=straight",
                                  "train.max_steps=6", "comm.silence_s=60"});
  REQUIRE(straight.code == 0);
  CHECK(read_metrics(run).all("loss") == read_metrics(work.folder() / "runs/straight").all("loss"));
}

}  // namespace

TEST_CASE("a launcher that is suspended for longer than comm.silence_s costs nothing: the ranks wait for it") {
  const Workspace work;
  const auto file =
      work.write("a.toml", small_config({{"max_steps", "max_steps = 30"}, {"global_batch", "global_batch = 8"}},
                                        "[comm]\nsilence_s = 2.0\n"));
  Program program(work.folder(), {"run", file, "-n", "2"});
  REQUIRE(program.wait_for("global_step: 3 "));
  program.signal(SIGSTOP);
  std::this_thread::sleep_for(std::chrono::seconds(6));
  CHECK(program.running());
  CHECK_THAT(program.err(), Contains(cat("process ", program.pid(), ", which has started the ranks, is suspended")));
  program.signal(SIGCONT);
  const auto ended = program.wait(limit);
  INFO(ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == 0);
  CHECK(count(ended.err, "is suspended") == 1);
  CHECK(read_metrics(work.folder() / "runs/small").steps.size() == 30);
}

TEST_CASE("a rank that stops in training is named, and the others end") { check_stopped("cpu", 3, GENERATE(0, 1)); }

TEST_CASE("a rank that stops while a checkpoint is written is named with it, and what was committed is whole") {
  struct Case {
    const char* when;
    std::vector<std::string> options;
  };
  const auto one = GENERATE(Case{"during training", {"train.max_steps=1000000"}},
                            Case{"training waits", {"train.max_steps=1000000", "checkpoint.asynchronous=false"}},
                            Case{"at the end", {"train.max_steps=4"}});
  INFO(one.when);
  bool stopped = false;
  for (int attempt = 0; attempt < 5 && !stopped; ++attempt) {
    const Workspace work;
    const auto file = work.write("a.toml", saves_often());
    const std::vector<std::string> always{"run", file, "-n", "3", "run.deterministic=true"};
    auto words = always;
    words.insert(words.end(), one.options.begin(), one.options.end());
    Program program(work.folder(), words);
    REQUIRE(program.wait_for("global_step: 2 "));
    stopped = stopped_while_writing(program, work.folder() / "runs/small", 1);
    if (!stopped) continue;
    const auto started = program.children();
    const auto ended = program.wait(limit);
    INFO(ended.err);
    REQUIRE_FALSE(ended.timed_out);
    CHECK(ended.code == static_cast<int>(ExitCode::peer_failed));
    CHECK_THAT(ended.err, Contains("rank 1 on ") && Contains(" failed: it has not been heard of for "));
    CHECK_THAT(ended.err,
               Contains("step-00000004") && Contains("which is not saved now; what was committed before is whole"));
    CHECK(still_running(started).empty());
    check_saved_before(work, file, always);
  }
  CHECK(stopped);
}

TEST_CASE("NCCL: a rank that stops in training is named, and the others end", "[.gpu][faults]") {
  if (too_few_gpus(2)) return;
  check_stopped("cuda", visible_gpus(), GENERATE(0, 1));
}

TEST_CASE("NCCL: a rank that is killed in training is named, and the others end", "[.gpu][faults]") {
  if (too_few_gpus(2)) return;
  check_killed("cuda", visible_gpus(), GENERATE(0, 1));
}

}  // namespace stopped_test
