// A configuration that is refused: `check` and `run` say the same and leave nothing. What is said of which fault is
// tests/unit/ranks/refused_test.cc.
#include <capstan/base/exit_code.h>
#include <capstan_catch.h>

#include "end_to_end/program.h"

namespace faults_test {

using namespace end_to_end;
using capstan::ExitCode;

namespace {

constexpr int usage = static_cast<int>(ExitCode::usage);

// Runs check and run: both must end with the same words on standard error, `error`, and exit code 2, and leave
// nothing. Returns what stands on standard error.
std::string refusal(const Workspace& work, const std::string& config, const std::vector<std::string>& overrides = {}) {
  std::vector<std::string> arguments{"check", config};
  arguments.insert(arguments.end(), overrides.begin(), overrides.end());
  const auto checked = work.run(arguments);
  CHECK(checked.code == usage);
  CHECK(checked.out.empty());
  arguments.front() = "run";
  const auto ran = work.run(arguments);
  CHECK(ran.code == usage);
  CHECK(ran.out.empty());
  CHECK(ran.err == checked.err);
  CHECK_FALSE(std::filesystem::exists(work.folder() / "runs"));
  return checked.err;
}

}  // namespace

TEST_CASE("all faults at once") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"seed", "sed = 3"},
                                                       {"hidden_size", "hidden_size = 13"},
                                                       {"train = ", "train = \"none.json\""},
                                                       {"global_batch", "global_batch = 13"},
                                                       {"lr", "lr = \"fast\""}},
                                                      "[monitor.consol]\n"));
  const auto said = refusal(work, file, {"optimizer.clip=-1"});
  CHECK_THAT(said, Contains("capstan: error (7 faults)\n"));
  CHECK_THAT(said, Contains(work.where(file, "sed =") + ": unknown option run.sed\n"));
  CHECK_THAT(said, Contains(work.where(file, "hidden_size") + ": model.hidden_size 13 is not divisible"));
  CHECK_THAT(said, Contains(work.where(file, "none.json") + ": data.train: there is no file"));
  CHECK_THAT(said, Contains(work.where(file, "global_batch") + ": global_batch 13 is not a multiple"));
  CHECK_THAT(said, Contains(work.where(file, "lr =") + ": optimizer.lr is \"fast\" (a string), but must be a number"));
  CHECK_THAT(said, Contains(work.where(file, "consol]") + ": there is no monitor plugin 'consol'"));
  CHECK_THAT(said, Contains("command line: optimizer.clip is -1, but must be at least 0"));
}

TEST_CASE("an override in another program's words is answered with Capstan's") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  CHECK_THAT(refusal(work, file, {"optimizer.learning_rate=1"}),
             Contains("unknown option optimizer.learning_rate\n    fix: did you mean 'optimizer.lr'? "
                      "(TrainingArguments' learning_rate)\n"));
  CHECK_THAT(refusal(work, file, {"max_steps=3"}),
             Contains("'max_steps=3' names no option of a table\n    fix: did you mean 'train.max_steps'? "
                      "(TrainingArguments' max_steps)\n"));
}

TEST_CASE("a GPU is asked for where there is none") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"device", "device = \"cuda\""}}));
  CHECK(work.run({"check", file}).code == 0);  // may be judged on a login node
  // An empty list hides the GPUs of a machine that has some.
  const auto ran = work.run({"run", file}, {{"CUDA_VISIBLE_DEVICES", ""}});
  CHECK(ran.code == static_cast<int>(ExitCode::failure));
  const bool has_module = std::filesystem::exists(binary_dir() / "lib" / "libcapstan_cuda.so");
  CHECK_THAT(ran.err, Contains(has_module ? "finds no NVIDIA driver" : "this build has no GPU module"));
  CHECK_THAT(ran.err, Contains("fix: "));
}

}  // namespace faults_test
