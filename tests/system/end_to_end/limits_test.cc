// What a user's limits and names that lead nowhere are called.
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>

#include "end_to_end/program.h"

namespace limits_test {

using namespace end_to_end;
using capstan::cat;
using capstan::ExitCode;

namespace {

constexpr auto usage = static_cast<int>(ExitCode::usage);

// `capstan ARGUMENTS` in a shell that has set a limit.
Outcome limited(const Workspace& work, const std::string& limit, const std::string& arguments) {
  const auto program = (binary_dir() / "bin" / "capstan").string();
  const auto status = std::system(cat("cd ", work.folder().string(), " && ", limit, " && OMP_NUM_THREADS=1 ", program,
                                      " ", arguments, " >out 2>err")
                                      .c_str());
  Outcome ended;
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  ended.out = capstan::read_file(work.folder() / "out");
  ended.err = capstan::read_file(work.folder() / "err");
  return ended;
}

std::string small(const std::string& more = {}) {
  return small_config({{"max_steps", "max_steps = 2"}, {"global_batch", "global_batch = 8"}}, more);
}

}  // namespace

TEST_CASE("limits that nothing can work with are said at once, with the limit's name and what is needed") {
  const Workspace work;
  work.write("a.toml", small());
  // This program's own size is that of the libraries, and what they have allocated so far.
  const auto own = std::stoll(capstan::read_file("/proc/self/statm")) * (::sysconf(_SC_PAGESIZE) / 1024);
  for (const char* command : {"--version", "check a.toml", "run a.toml -n 2"}) {
    INFO(command);
    const auto memory = limited(work, cat("ulimit -v ", own), command);
    INFO(memory.all());
    CHECK(memory.code == usage);
    CHECK_THAT(memory.err, Contains(cat("ulimit -v limits this process's memory to ", own, " KiB")) &&
                               Contains("    fix: ulimit -v "));
    const auto stack = limited(work, "ulimit -s 64", command);
    INFO(stack.all());
    CHECK(stack.code == usage);
    CHECK_THAT(stack.err, Contains("ulimit -s limits the stack to 64 KiB") && Contains("    fix: ulimit -s "));
  }
  const auto begin = std::chrono::steady_clock::now();
  const auto files = limited(work, "ulimit -n 16", "run a.toml -n 2");
  INFO(files.all());
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(30));
  CHECK(files.code == static_cast<int>(ExitCode::failure));
  CHECK_THAT(files.err, Contains("ulimit -n limits this process to 16 open files, but the start of 2 ranks needs ") &&
                            Contains("ulimit -n ") && !Contains("bug"));
  CHECK(limited(work, "ulimit -Sn 16", "run a.toml -n 2").code == 0);
}

TEST_CASE("a name that leads nowhere is what is blamed") {
  const Workspace work;
  const auto file = work.write("a.toml", small());
  const auto said = [&](const std::vector<std::string>& command, const Variables& variables = {}) {
    const auto ended = work.run(command, variables);
    CHECK(ended.code != 0);
    return ended.err;
  };
  CHECK_THAT(said({"plan", file, "--gpus", "2", "--gpu", "h200-141g"}),
             Contains(work.where(file, "device =")) && Contains("run.device is \"cpu\", but a plan is for GPUs"));
  CHECK_THAT(said({"trace", "/nonexistent"}), Contains("/nonexistent: there is no such run or trace"));
  CHECK_THAT(said({"run", file, "run.name=" + std::string(256, 'a')}),
             Contains("aaa: cannot make a folder for the run: File name too long") && Contains("shorter run.name"));
  CHECK_THAT(said({"run", file}, {{"CAPSTAN_CACHE", "/dev/null"}}),
             Contains("CAPSTAN_CACHE: it is /dev/null, which is no folder"));
}

TEST_CASE("a pipe among a run's files is called one, and is not waited for") {
  const Workspace work;
  const auto file = work.write("a.toml", small("[checkpoint]\nevery_steps = 1\n"));
  REQUIRE(work.run({"run", file}).code == 0);
  const auto newest = work.folder() / "runs/small/checkpoints/step-00000002";
  const auto weights = newest / "weights-00000-of-00001.safetensors";
  std::filesystem::remove(weights);
  REQUIRE(::mkfifo(weights.c_str(), 0600) == 0);
  const auto list = work.run({"checkpoint", "ls", "runs/small"});
  CHECK_THAT(list.out, Contains("damaged: it is a pipe or a device, not a file") && !Contains("PiB"));
  CHECK_THAT(work.run({"generate", newest.string(), "hi"}).err, Contains("it is a pipe or a device, not a file"));
  const auto summary = work.folder() / "runs/small/summary.json";
  std::filesystem::remove(summary);
  REQUIRE(::mkfifo(summary.c_str(), 0600) == 0);
  Program program(work.folder(), {"run", file, "checkpoint.resume=auto", "train.max_steps=3"});
  const auto ended = program.wait(std::chrono::seconds(60));
  INFO(ended.all());
  CHECK_FALSE(ended.timed_out);
  CHECK_THAT(ended.err, Contains("resuming from runs/small/checkpoints/step-00000001") && Contains("summary.json") &&
                            Contains("a pipe that no process reads"));
}

TEST_CASE("a run of random values of which 4 bits were trained on has nothing to generate from") {
  const Workspace work;
  const auto file = work.write("a.toml", small_config({{"max_steps", "max_steps = 1"},
                                                       {"hidden_size", "hidden_size = 64"},
                                                       {"num_heads", "num_heads = 4"},
                                                       {"ff_dim", "ff_dim = 128"}},
                                                      "[strategy.lora]\nrank = 4\n[strategy.nf4]\n"));
  REQUIRE(work.run({"run", file}).code == 0);
  const auto ended = work.run({"generate", "runs/small", "hi"});
  INFO(ended.all());
  CHECK(ended.code == static_cast<int>(ExitCode::failure));
  CHECK(count(ended.err, "fix: ") == 1);
  CHECK_THAT(ended.err, Contains("it has only what was trained") && Contains("random values"));
}

}  // namespace limits_test
