// How a run of several processes ends: when one rank fails, is killed, hangs, or all are asked to stop.
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <csignal>

#include "end_to_end/program.h"
#include "end_to_end/results.h"

namespace ends_test {

using namespace end_to_end;
using capstan::cat;
using capstan::ExitCode;

namespace {

// "Within seconds" of a failure; far above it, since this machine may be busy, and far below comm.timeout_s.
constexpr std::chrono::seconds limit(100);

// A strategy that throws after the third step.
std::string broken(int rank, const std::string& how) {
  return cat("[strategy.thrower]\nthrow_in = \"after_step\"\non_rank = ", rank, "\nafter = 2\nhow = \"", how,
             "\"\npath = \"", fixture("strategy", "thrower"), "\"\n");
}

std::string probe(int rank, const std::string& how) {
  return cat("[monitor.probe]\nrank = ", rank, "\nstep = 2\nhow = \"", how, "\"\npath = \"",
             fixture("monitor", "probe"), "\"\n");
}

// 12 lines, one of them too long for 97 tokens.
std::string lines_with_a_long_one(int which) {
  std::string lines;
  for (int i = 0; i < 12; ++i)
    lines += Json{{"prompt", i == which ? std::string(200, 'x') : "Who is it?"}, {"completion", " Ann"}}.dump() + "\n";
  return lines;
}

// SQuAD with 12 questions, some of them too long for 97 tokens whatever is cut from their context.
std::string data_with_long_questions() {
  Json questions = Json::array();
  for (int i = 0; i < 12; ++i) {
    const std::string text = i == 7 || i == 9 ? std::string(200, 'x') : "Who is it?";
    questions.push_back(
        {{"id", cat("q", i)}, {"question", text}, {"answers", {{{"text", "Ann"}, {"answer_start", 0}}}}});
  }
  return Json{{"data", {{{"title", "t"}, {"paragraphs", {{{"context", "Ann is."}, {"qas", questions}}}}}}}}.dump();
}

}  // namespace

TEST_CASE("faults of a configuration are printed once, whatever the number of ranks") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"hidden_size", "hidden_size = 13"}, {"seed", "sed = 3"}}));
  Program program(work.folder(), {"run", file, "-n", "4", "train.global_batch=16"});
  const auto ended = program.wait(limit);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == static_cast<int>(ExitCode::usage));
  CHECK(ended.out.empty());
  CHECK(ended.err == work.run({"check", file, "-n", "4", "train.global_batch=16"}).err);
  CHECK_THAT(ended.err, Contains("capstan: error (2 faults)\n"));
  CHECK_FALSE(std::filesystem::exists(work.folder() / "runs"));

  Program missing(work.folder(), {"run", "none.toml", "-n", "3"});
  const auto nothing = missing.wait(limit);
  REQUIRE_FALSE(nothing.timed_out);
  CHECK(nothing.code == static_cast<int>(ExitCode::usage));
  CHECK(nothing.err == "capstan: error\nnone.toml: the file does not exist\n");
}

TEST_CASE("an error on one rank ends all of them, that error on top") {
  const int rank = GENERATE(0, 1, 2);
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"max_steps", "max_steps = 1000000"}}, broken(rank, "throw")));
  Program program(work.folder(), {"run", file, "-n", "3"});
  const auto ended = program.wait(limit);
  INFO("rank " << rank << "\n" << ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == static_cast<int>(ExitCode::failure));
  CHECK_THAT(ended.err, Contains("no luck in after_step\n"));
  CHECK_THAT(ended.err, Contains("plugin 'thrower' was in phase after_step of step 2"));
  // Before anything that follows from it.
  CHECK(ended.err.find("no luck in after_step") < ended.err.find("Connection"));
  CHECK(program.children().empty());
}

TEST_CASE("a bug on one rank ends all of them with the code of a bug") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"max_steps", "max_steps = 1000000"}}, broken(1, "bug")));
  Program program(work.folder(), {"run", file, "-n", "2", "train.global_batch=8"});
  const auto ended = program.wait(limit);
  INFO(ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == static_cast<int>(ExitCode::bug));
  CHECK_THAT(ended.err, Contains("this is a bug, please report it") && Contains("wrong in after_step"));
}

TEST_CASE("lines that do not fit are found before the first step, by check as by run") {
  const Workspace work;
  work.write("long.jsonl", lines_with_a_long_one(7));
  const auto file = work.write("a.toml", small_config({{"plugin = \"squad\"", "plugin = \"jsonl\""},
                                                       {"train = ", "train = \"long.jsonl\""},
                                                       {"train_samples", ""},
                                                       {"eval =", ""},
                                                       {"eval_samples", ""}}));
  const auto checked = work.run({"check", file, "-n", "3"});
  CHECK(checked.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(checked.err, Contains("long.jsonl:8: the line has ") && Contains("max_length"));
  CHECK(work.run({"run", file, "-n", "3"}).err == checked.err);
}

TEST_CASE("questions that leave no room for an answer are found before the first step, by check as by run and eval") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({}));
  // 130 positions; a sample has 97 of them.
  const std::vector<std::string> settings{"train.max_new_tokens=100", "train.generate_samples=-1"};
  const auto checked = work.run({"check", file, settings[0], settings[1]});
  CHECK(checked.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(checked.err, Contains("mini_squad_eval.json: question '") &&
                              Contains(" tokens without any context; besides an answer there is room for 30\n") &&
                              Contains("fix: lower train.max_new_tokens"));
  CHECK(work.run({"run", file, settings[0], settings[1]}).err == checked.err);
  CHECK(work.run({"check", file, settings[0]}).code == 0);  // nothing is asked
  CHECK(work.run({"eval", file, settings[0]}).code == static_cast<int>(ExitCode::usage));
}

TEST_CASE("questions that do not fit are found before the first step, by check as by run") {
  const Workspace work;
  work.write("long.json", data_with_long_questions());
  const auto file = work.write(
      "a.toml",
      small_config(
          {{"train = ", "train = \"long.json\""}, {"train_samples", ""}, {"eval =", ""}, {"eval_samples", ""}}));
  const auto checked = work.run({"check", file, "-n", "3"});
  CHECK(checked.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(checked.err, Contains("long.json: question 'q7' needs ") &&
                              Contains(" tokens without any context, max_length is 97 (and 1 more; ") &&
                              Contains("fix: raise max_length to "));
  CHECK(work.run({"run", file, "-n", "3"}).err == checked.err);
}

TEST_CASE("a rank that is killed is named with its signal, and all others end") {
  const int rank = GENERATE(0, 1);
  const Workspace work;
  const auto file = work.write(
      "a.toml", small_config({{"max_steps", "max_steps = 1000000"}}, "[strategy.fsdp]\nmode = \"full_shard\"\n"));
  Program program(work.folder(), {"run", file, "-n", "3"});
  REQUIRE(program.wait_for("global_step: 2 "));
  const auto victim = program.rank(rank);
  REQUIRE(victim > 0);
  REQUIRE(kill(victim, SIGKILL) == 0);
  const auto ended = program.wait(limit);
  INFO("rank " << rank << "\n" << ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == 128 + SIGKILL);
  CHECK_THAT(ended.err, Contains(cat("rank ", rank, " was killed by signal 9 (SIGKILL)")));
}

TEST_CASE("a rank that crashes gives its signal as exit code") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"max_steps", "max_steps = 1000000"}}, probe(1, "segfault")));
  Program program(work.folder(), {"run", file, "-n", "2", "train.global_batch=8"});
  const auto ended = program.wait(limit);
  INFO(ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == 128 + SIGSEGV);
  CHECK_THAT(ended.err, Contains("rank 1 was killed by signal 11 (SIGSEGV)"));
}

TEST_CASE("a rank that hangs is reported with what the others wait for") {
  const Workspace work;
  const auto file = work.write(
      "a.toml", small_config({{"max_steps", "max_steps = 1000000"}}, probe(1, "hang") + "[comm]\ntimeout_s = 5.0\n"));
  Program program(work.folder(), {"run", file, "-n", "3"});
  const auto ended = program.wait(limit);
  INFO(ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == static_cast<int>(ExitCode::peer_failed));
  CHECK(count(ended.err, "it waits for rank 1\n") == 1);  // not once a rank
  CHECK(count(ended.err, " is in no collective; its last was ") == 1);
  CHECK_THAT(ended.err, Contains("\n    ranks 0, 2 wait in it\n    rank 1 on "));
  CHECK(count(ended.err, "[rank 2] ") == 1);
  CHECK_THAT(ended.err, Contains("[rank 2] capstan error: first error: all-reduce 'all-reduce step counts' of") &&
                            Contains(" s (rank 0 says more)\n"));
  CHECK_THAT(capstan::read_file(work.folder() / "runs/small/logs/rank-2.log"), Contains("it waits for rank 1\n"));
  CHECK(program.children().empty());
}

TEST_CASE("a signal to the launcher stops all ranks after the same step") {
  const Workspace work;
  const auto file = work.write(
      "a.toml", small_config({{"max_steps", "max_steps = 1000000"}}, "[strategy.fsdp]\nmode = \"full_shard\"\n"));
  Program program(work.folder(), {"run", file, "-n", "3", "train.eval_every=1000000"});
  REQUIRE(program.wait_for("global_step: 3 "));
  program.signal(SIGTERM);
  const auto ended = program.wait(limit);
  INFO(ended.err);
  REQUIRE_FALSE(ended.timed_out);
  CHECK(ended.code == static_cast<int>(ExitCode::interrupted));
  const auto run = work.folder() / "runs" / "small";
  const auto steps = read_metrics(run).steps.size();
  CHECK_THAT(ended.err, Contains(cat("capstan: stopped by SIGTERM after step ", steps,
                                     "; a later run starts from the beginning")));
  // The weights are of one step: every rank wrote its part of the same manifest.
  const auto manifest = read_json(run / "weights" / "manifest.json");
  CHECK(manifest.at("step") == steps);
  CHECK(manifest.at("world_size") == 3);
  CHECK(read_weights(run).size() > 10);
}

TEST_CASE("a run that is killed at any point of a save continues to the same losses") {
  const Workspace work;
  const auto file =
      work.write("a.toml", small_config({{"max_steps", "max_steps = 4"}}, "[checkpoint]\nevery_steps = 2\nkeep = 1\n"));
  const auto words = [&](const std::string& name) {
    return std::vector<std::string>{
        "run", file, "-n", "3", "run.deterministic=true", "checkpoint.resume=auto", "run.name=" + name};
  };
  const auto run = [&](const std::string& name, const Variables& variables) {
    return work.run(words(name), variables);
  };
  const auto losses = [&](const std::string& name) {
    std::vector<double> all;
    for (const auto& step : read_metrics(work.folder() / "runs" / name).steps)
      all.push_back(step.at("loss").get<double>());
    return all;
  };
  REQUIRE(run("straight", {}).code == 0);
  for (const int point : {1, 2, 3, 4, 5, 7, 8, 9, 10}) {  // 6 is where a checkpoint is replaced
    INFO("point " << point);
    const auto name = cat("at-", point);
    const Variables at_point{{"CAPSTAN_CRASH_AT", std::to_string(point)}};
    const bool by_launcher = point == 5;
    const auto killed = by_launcher ? work.start(words(name), at_point) : run(name, at_point);
    INFO(killed.all());
    CHECK(killed.code == 128 + SIGKILL);
    if (by_launcher) CHECK_THAT(killed.err, Contains("was killed by signal 9 (SIGKILL)"));
    const auto ended = run(name, {});
    INFO(ended.all());
    CHECK(ended.code == 0);
    CHECK(count(ended.out, "resuming from ") == (point < 7 ? 0 : 1));  // from there on it has its name
    CHECK(losses(name) == losses("straight"));
  }
  const auto refused = run("banana", {{"CAPSTAN_CRASH_AT", "banana"}});
  CHECK(refused.code == static_cast<int>(ExitCode::failure));
  CHECK_THAT(refused.err, Contains("CAPSTAN_CRASH_AT is 'banana', not a point of a commit"));
}

}  // namespace ends_test
