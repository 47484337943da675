// A run whose disk is full for a while or for good, and one whose checkpoints an ordinary user may not read.
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <thread>

#include "end_to_end/program.h"
#include "end_to_end/results.h"
#include "support/ordinary_user.h"

namespace full_disk_test {

using namespace end_to_end;
using capstan::cat;
using capstan::ExitCode;

namespace fs = std::filesystem;

namespace {

// A file system of its own; none where this process may not mount.
class SmallDisk {
 public:
  explicit SmallDisk(fs::path at) : at_(std::move(at)) {
    fs::create_directories(at_);
    is_there_ = ::mount("tmpfs", at_.c_str(), "tmpfs", 0, "size=4m") == 0;
  }
  ~SmallDisk() {
    if (is_there_) ::umount2(at_.c_str(), MNT_DETACH);
  }
  SmallDisk(const SmallDisk&) = delete;
  SmallDisk& operator=(const SmallDisk&) = delete;
  bool is_there() const { return is_there_; }
  void fill() const {
    std::ofstream out(at_ / "ballast", std::ios::binary);
    const std::string block(1 << 12, 'x');
    while (out.write(block.data(), static_cast<std::streamsize>(block.size())).flush()) {
    }
  }
  void free() const { fs::remove(at_ / "ballast"); }

 private:
  fs::path at_;
  bool is_there_ = false;
};

}  // namespace

TEST_CASE("a disk that is full for a while costs no line of metrics and no line of the log") {
  const Workspace work;
  const SmallDisk disk(work.folder() / "runs");
  if (!disk.is_there()) {
    WARN("not tested: this process may not mount a file system");
    return;
  }
  const auto file =
      work.write("a.toml", small_config({{"max_steps", "max_steps = 100"}, {"eval =", ""}, {"eval_samples", ""}}));
  Program program(work.folder(), {"run", file, "run.save_weights=false"});
  REQUIRE(program.wait_for("global_step: 20 "));
  disk.fill();
  REQUIRE(program.wait_for("global_step: 60 "));
  disk.free();
  const auto ended = program.wait();
  INFO(ended.all());
  CHECK(ended.code == 0);
  CHECK_THAT(ended.err, Contains("metrics.jsonl: cannot write it: No space is left on its file system (ENOSPC)") &&
                            Contains("metrics.jsonl: it can be written again; nothing of it is missing"));
  CHECK(count(ended.err, "cannot write it") < 4);
  const auto metrics = read_metrics(work.folder() / "runs/small");
  CHECK(metrics.steps.size() == 100);
  CHECK(read_json(work.folder() / "runs/small/summary.json").at("steps") == 100);
}

TEST_CASE("a disk that stays full is no success") {
  const Workspace work;
  const SmallDisk disk(work.folder() / "runs");
  if (!disk.is_there()) {
    WARN("not tested: this process may not mount a file system");
    return;
  }
  const auto ranks = GENERATE(1, 3);
  const auto file =
      work.write("a.toml", small_config({{"max_steps", "max_steps = 60"}, {"eval =", ""}, {"eval_samples", ""}}));
  Program program(work.folder(), {"run", file, "run.save_weights=false", "-n", std::to_string(ranks)});
  REQUIRE(program.wait_for("global_step: 20 "));
  disk.fill();
  const auto ended = program.wait();
  INFO(ended.all());
  CHECK(ended.code == static_cast<int>(ExitCode::failure));
  CHECK_THAT(ended.err, Contains("not all of the run's results could be written") &&
                            Contains("lines of it could not be written: No space is left on its file system") &&
                            Contains("summary.json: cannot write it: No space is left"));
  CHECK(read_metrics(work.folder() / "runs/small").steps.size() >= 20);  // each of them whole
}

TEST_CASE("what a command prints into a full device is no success") {
  const Workspace work;
  const auto command = cat("'", (binary_dir() / "bin/capstan").string(), "' plugins > /dev/full 2> '",
                           (work.folder() / "err").string(), "'");
  const int status = std::system(command.c_str());  // NOLINT(concurrency-mt-unsafe,cert-env33-c): one thread
  CHECK(WEXITSTATUS(status) == static_cast<int>(ExitCode::failure));
  CHECK_THAT(capstan::read_file(work.folder() / "err"), Contains("not all could be written to standard output"));
}

TEST_CASE("checkpoints that an ordinary user may not read end the run in words, and lose nothing") {
  const Workspace work;
  const auto file =
      work.write("a.toml", small_config({}, "[checkpoint]\nevery_steps = 2\nkeep = 0\nresume = \"auto\"\n"));
  REQUIRE(work.run({"run", file, "-n", "3", "run.dir=" + (work.folder() / "runs").string()}).code == 0);
  const auto run = work.folder() / "runs/small";
  const auto metrics = capstan::read_file(run / "metrics.jsonl");
  fs::permissions(work.folder(), fs::perms::all);
  for (const auto& entry : fs::recursive_directory_iterator(work.folder()))
    if (::chown(entry.path().c_str(), test::OrdinaryUser::nobody, test::OrdinaryUser::nobody) != 0)
      WARN("not all of it belongs to the ordinary user");
  const std::string name = GENERATE("checkpoints", "checkpoints/step-00000008/manifest.json");
  const auto closed = run / name;
  fs::permissions(closed, fs::perms::none);
  const auto program = (binary_dir() / "bin/capstan").string();
  const test::OrdinaryUser user;
  if (!test::OrdinaryUser::may_run(program)) {
    WARN("an ordinary user may not run what lies here: nothing tested");
    return;
  }
  for (const char* ranks : {"1", "3"}) {
    const auto ended = work.run({"run", file, "-n", ranks});
    INFO(ended.all());
    CHECK(ended.code == static_cast<int>(ExitCode::usage));
    CHECK_THAT(ended.err, Contains(closed.filename().string()) && Contains("Permission denied (EACCES)") &&
                              Contains("fix: give this user the right"));
    CHECK(capstan::read_file(run / "metrics.jsonl") == metrics);
  }
  fs::permissions(closed, fs::perms::owner_all);
  for (const auto& entry : fs::directory_iterator(run / "checkpoints"))
    CHECK_FALSE(entry.path().filename().string().starts_with("damaged"));
  const auto again = work.run({"run", file, "-n", "3"});
  INFO(again.all());
  CHECK(again.code == 0);
  CHECK_THAT(again.out, Contains("after step 8 of 8"));
}

}  // namespace full_disk_test
