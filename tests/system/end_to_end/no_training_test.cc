// Commands that do not train, for configurations whose runs continue from checkpoints.
#include <capstan/base/exit_code.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <capstan_places.h>

#include <filesystem>

#include "end_to_end/program.h"

namespace no_training_test {

using namespace end_to_end;
using capstan::cat;

namespace {

// Every command but run and check that reads a configuration or what a run has left.
std::vector<std::vector<std::string>> commands(const std::string& file, const std::string& out) {
  return {{"eval", file},
          {"eval", file, "-n", "2"},
          {"eval", "runs/small"},
          {"eval", "runs/small/checkpoints/step-00000002"},
          {"generate", "runs/small", "Question: a"},
          {"data", file},
          {"export", "runs/small", "--out", out},
          {"checkpoint", "ls", "runs/small"},
          {"checkpoint", "verify", "runs/small"},
          {"checkpoint", "show", "runs/small"},
          {"preflight", file},
          {"plugins"},
          {"reference"}};
}

void check_commands(const Workspace& work, const std::string& file, const Variables& variables) {
  static int number = 0;
  for (const auto& words : commands(file, cat("exported-", ++number))) {
    const auto ran = work.run(words, variables);
    INFO(capstan::join(words, " ") << "\n" << ran.all());
    CHECK(ran.code == 0);
    CHECK_THAT(ran.all(), !Contains("resuming from"));
  }
}

}  // namespace

TEST_CASE("commands that do not train have no say in what a run would continue from") {
  const Workspace work;
  const auto config = [&](const std::string& name, const std::string& resume) {
    return work.write(name, small_config({{"max_steps", "max_steps = 2\ngenerate_samples = 0"}},
                                         cat("[checkpoint]\nevery_steps = 2\nresume = \"", resume, "\"\n")));
  };
  const auto file = config("auto.toml", "auto");
  const auto trained = work.run({"run", file});
  INFO(trained.all());
  REQUIRE(trained.code == 0);
  const Variables requeued{{"SLURM_JOB_ID", "4711"}, {"SLURM_RESTART_COUNT", "1"}, {"SLURM_STEP_ID", "0"}};
  check_commands(work, file, {});
  check_commands(work, file, requeued);
  check_commands(work, config("folder.toml", "runs/small"), {});
  // Another machine's, or one that is gone: where a run would look does not matter.
  check_commands(work, config("gone.toml", "runs/gone"), requeued);
  // A run does look, and so does check.
  CHECK_THAT(work.run({"check", config("gone.toml", "runs/gone")}).err, Contains("checkpoint.resume: there is no "));
}

TEST_CASE("an evaluation and a look at samples need no other split's file, and a run's folder may be somewhere else") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"max_steps", "max_steps = 1\ngenerate_samples = 1"}}));
  const auto data = std::filesystem::path(CAPSTAN_SOURCE_DIR) / "configs/data";
  std::filesystem::copy_file(data / "mini_squad_train.json", work.folder() / "train.json");
  const std::vector<std::string> options{"data.train=" + (work.folder() / "train.json").string(),
                                         "data.eval=" + (data / "mini_squad_eval.json").string()};
  const auto call = [&](std::vector<std::string> words, bool with_options) {
    if (with_options) words.insert(words.end(), options.begin(), options.end());
    const auto ran = work.run(words);
    INFO(capstan::join(words, " ") << "\n" << ran.all());
    return ran;
  };
  REQUIRE(call({"run", file}, true).code == 0);
  std::filesystem::remove(work.folder() / "train.json");
  CHECK_THAT(call({"eval", "runs/small"}, false).out, Contains("eval: loss "));
  CHECK(call({"eval", "runs/small", "-n", "2"}, false).code == 0);
  CHECK(call({"eval", file}, true).code == 0);
  CHECK(call({"data", file, "--split", "eval"}, true).code == 0);
  CHECK(call({"generate", "runs/small", "Question: a"}, false).code == 0);
  for (const auto& words :
       {std::vector<std::string>{"eval", file, "--split", "train"}, {"data", file}, {"check", file}}) {
    const auto refused = call(words, true);
    CHECK(refused.code == static_cast<int>(capstan::ExitCode::usage));
    CHECK_THAT(refused.err, Contains("data.train: there is no file "));
  }
}

}  // namespace no_training_test
