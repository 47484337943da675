// Who may write to a run's folder, and who is taken for gone.
#include "record/run_lock.h"

#include <capstan/base/error.h>
#include <capstan/base/files.h>
#include <capstan_catch.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/folder.h"

namespace run_lock_test {

using namespace capstan;
using namespace std::chrono_literals;
using record::LockHolder;
using record::RunLock;

namespace {

constexpr RunLock::Patience hasty{20ms, 400ms, 300000ms};

LockHolder here(const std::string& job = "") { return RunLock::this_process("n1", job); }

// A process of another machine, about which nothing can be asked here.
LockHolder elsewhere(const std::string& job = "") { return {"n2", 77, "other", "1", job, here().since - 65}; }

// Asks until there is an answer.
bool take_in_time(RunLock& lock) {
  for (int i = 0; i < 200; ++i) {
    if (lock.take()) return true;
    std::this_thread::sleep_for(10ms);
  }
  return false;
}

// The number of a process that was.
pid_t dead_process() {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(0);
  REQUIRE(::waitpid(child, nullptr, 0) == child);
  return child;
}

}  // namespace

TEST_CASE("one process at a time holds a run's folder") {
  const test::Folder folder;
  const auto file = folder.path() / "running";
  {
    RunLock lock(folder.path(), here("4711.0"), hasty);
    REQUIRE(lock.take());
    RunLock second(folder.path(), here(), hasty);
    CHECK_THROWS_WITH(second.take(),
                      Contains(folder.path().string() + ": another run is writing to this folder: process " +
                               std::to_string(::getpid()) + " on n1 (job 4711), for 0:0") &&
                          Contains("fix: wait for its end, or stop it; with another run.name"));
    CHECK(std::filesystem::exists(file));
  }
  CHECK_FALSE(std::filesystem::exists(file));
  RunLock third(folder.path(), here(), hasty);
  CHECK(third.take());
}

TEST_CASE("a process of this machine that is gone holds nothing, nor does another one of its number") {
  const test::Folder folder;
  auto killed = here();
  killed.pid = dead_process();
  auto other = here();
  other.started = "1";
  const auto& holder = GENERATE(true, false) ? killed : other;
  const auto file = folder.path() / "running";
  {
    RunLock left(folder.path(), holder, hasty);
    REQUIRE(left.take());
    std::filesystem::copy_file(file, folder.path() / "copy");  // the destructor gives it back
  }
  std::filesystem::rename(folder.path() / "copy", file);
  RunLock lock(folder.path(), here(), hasty);
  CHECK(lock.take());
}

TEST_CASE("on another machine, who touches the file lives") {
  const test::Folder folder;
  RunLock lock(folder.path(), elsewhere("12.1"), hasty);
  REQUIRE(lock.take());
  RunLock second(folder.path(), here("13.0"), hasty);
  CHECK_FALSE(second.take());
  CHECK_THROWS_WITH(take_in_time(second), Contains("process 77 on n2 (job 12), for 1:0"));
}

TEST_CASE("on another machine, who does not touch the file is gone: in the end, or soon where that is long ago") {
  const test::Folder folder;
  const auto file = folder.path() / "running";
  const auto text = GENERATE(R"({"host": "n2", "pid": 77, "machine": "other"})", "", "{");
  write_file(file, text);
  {
    RunLock lock(folder.path(), here(), hasty);
    CHECK_FALSE(lock.take());
    CHECK(take_in_time(lock));
  }
  write_file(file, text);
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - 10min);
  RunLock lock(folder.path(), here(), RunLock::Patience{20ms, 1h, 300000ms});
  CHECK_FALSE(lock.take());
  CHECK(take_in_time(lock));
  CHECK_FALSE(std::filesystem::exists(folder.path() / ("running.n1." + std::to_string(::getpid()))));
}

TEST_CASE("a job that SLURM starts again takes what its first start held; another job does not") {
  const test::Folder folder;
  write_file(folder.path() / "running", R"({"host": "n2", "pid": 77, "machine": "other", "job": "4711.0"})");
  RunLock foreign(folder.path(), here("711.1"), hasty);
  CHECK_FALSE(foreign.take());
  RunLock same(folder.path(), here("4711.0"), hasty);
  CHECK_FALSE(same.take());
  RunLock again(folder.path(), here("4711.1"), hasty);
  CHECK(again.take());
}

TEST_CASE("who only looks learns whether a run's process lives, and changes nothing") {
  using State = record::HolderSeen::State;
  const test::Folder folder;
  const auto file = folder.path() / "running";
  CHECK(record::holder_seen(folder.path()).state == State::none);
  {
    RunLock lock(folder.path(), here(), hasty);
    REQUIRE(lock.take());
    const auto seen = record::holder_seen(folder.path());
    CHECK(seen.state == State::lives);
    CHECK(seen.name == "process " + std::to_string(::getpid()) + " on n1");
  }
  CHECK(record::holder_seen(folder.path()).state == State::none);
  auto killed = here();
  killed.pid = dead_process();
  {
    RunLock lock(folder.path(), killed, hasty);
    REQUIRE(lock.take());
    CHECK(record::holder_seen(folder.path()).state == State::gone);
  }
  write_file(file, R"({"host": "n2", "pid": 77, "machine": "other"})");
  CHECK(record::holder_seen(folder.path()).state == State::lives);
  std::filesystem::last_write_time(file, std::filesystem::file_time_type::clock::now() - 10min);
  const auto silent = record::holder_seen(folder.path());
  CHECK(silent.state == State::gone);
  CHECK(silent.name == "process 77 on n2");
  CHECK(std::filesystem::exists(file));
}

TEST_CASE("a lock that is a link to nothing is refused: no holder would ever answer") {
  const test::Folder folder;
  const auto file = folder.path() / "running";
  std::filesystem::create_symlink("gone", file);
  RunLock lock(folder.path(), here(), hasty);
  CHECK_THROWS_WITH(lock.take(),
                    Contains(file.string() + ": it is a link that leads nowhere") && Contains("fix: remove it"));
  std::filesystem::remove(file);
  CHECK(lock.take());
}

TEST_CASE("who was taken for dead leaves the file to its new holder") {
  const test::Folder folder;
  const auto file = folder.path() / "running";
  {
    RunLock lock(folder.path(), elsewhere("4711.0"), hasty);
    REQUIRE(lock.take());
    write_file(file, "another's");
    std::this_thread::sleep_for(100ms);
  }
  CHECK(read_file(file) == "another's");
}

TEST_CASE("a folder that cannot be written to is said so") {
  CHECK_THROWS_WITH(RunLock("/proc/nowhere", here(), hasty).take(), Contains("cannot write it: "));
}

TEST_CASE("a lock that cannot be read is not a lock that is free") {
  const test::Folder folder;
  const auto file = folder.path() / "running";
  std::filesystem::create_symlink("running", file);
  CHECK_THROWS_WITH(RunLock(folder.path(), here(), hasty).take(), Contains("cannot read it: Too many levels of"));
  std::filesystem::remove(file);
  std::filesystem::create_symlink("/proc/self/mem", file);
  CHECK_THROWS_WITH(RunLock(folder.path(), here(), hasty).take(), Contains("cannot read it: Input/output error (EIO)"));
}

TEST_CASE("the clock that stamps files jumps by an hour: who touches the file lives, and no time is below zero") {
  const test::Folder folder;
  auto later = elsewhere();
  later.since += 7200;  // as by a clock that has been set back since
  RunLock lock(folder.path(), later, RunLock::Patience{50ms, 400ms, 300000ms});
  REQUIRE(lock.take());
  std::filesystem::last_write_time(folder.path() / "running", std::filesystem::file_time_type::clock::now() - 1h);
  RunLock second(folder.path(), here(), RunLock::Patience{200ms, 1h, 300000ms});
  CHECK_FALSE(second.take());
  CHECK_THROWS_WITH(take_in_time(second), Contains("process 77 on n2\n    fix: "));
}

}  // namespace run_lock_test
