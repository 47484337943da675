// What a user meets when the surroundings refuse: output that goes nowhere, files that are not what they seem.
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <sys/stat.h>

#include <cstdlib>

#include "end_to_end/program.h"

using namespace end_to_end;
using capstan::cat;
using capstan::ExitCode;
using Catch::Matchers::Contains;

namespace {

// The exit code of `capstan ARGUMENTS REDIRECTIONS`.
int in_shell(const Workspace& work, const std::string& arguments) {
  const auto program = (binary_dir() / "bin" / "capstan").string();
  const auto status =
      std::system(cat("cd ", work.folder().string(), " && OMP_NUM_THREADS=1 ", program, " ", arguments).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
}

}  // namespace

TEST_CASE("output that cannot be written is no success, and never lands in a file of the run") {
  const Workspace work;
  work.write("a.toml", small_config({{"max_steps", "max_steps = 2"}}));
  CHECK(in_shell(work, "check a.toml >/dev/full 2>err") == static_cast<int>(ExitCode::failure));
  CHECK_THAT(capstan::read_file(work.folder() / "err"), Contains("not all could be written to standard output"));
  CHECK(in_shell(work, "check a.toml >&- 2>err") == static_cast<int>(ExitCode::failure));
  CHECK(in_shell(work, "run a.toml <&- >&- 2>&-") == 0);
  for (const auto& line :
       capstan::split(capstan::trim(capstan::read_file(work.folder() / "runs/small/metrics.jsonl")), '\n'))
    CHECK(line.starts_with("{"));
}

TEST_CASE("command lines that would destroy or mean nothing are refused") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config());
  const auto before = capstan::read_file(file);
  const auto onto_itself = work.run({"check", file, "--resolved", file});
  CHECK(onto_itself.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(onto_itself.err, Contains("--resolved names the configuration itself"));
  CHECK(capstan::read_file(file) == before);
  CHECK_THAT(work.run({"check", ""}).all(), Contains("the name of the configuration is empty"));
  CHECK_THAT(work.run({"export", "x", "--shard-gb", "nan"}).all(), Contains("nan is no number above 0"));
  CHECK(work.run({"check", file, "-n", "1048576"}).code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(work.run({"check", file, "model.vocab_size=4611686018427387904"}).err,
             Contains("the model has more than 1,000,000,000,000,000 parameters"));
  CHECK_THAT(work.run({"check", file, "model.num_layers=100000"}).err, Contains("must be between 1 and 4096"));
}

TEST_CASE("a folder whose name is not UTF-8 is refused before anything is written") {
  const Workspace work;
  const auto folder = work.folder() / "f\xff";
  std::filesystem::create_directories(folder);
  Program program(folder, {"check", work.write("a.toml", small_config())});
  const auto checked = program.wait(std::chrono::seconds(100));
  CHECK(checked.code == static_cast<int>(ExitCode::usage));
  CHECK_THAT(checked.err, Contains("whose name is not UTF-8") && Contains("\\xff"));
}
