// Commands that do not train, for configurations whose runs continue from checkpoints.
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"

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
