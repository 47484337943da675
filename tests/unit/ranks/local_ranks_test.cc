#include "peers/local_ranks.h"

#include <capstan/base/error.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include "comm/connect.h"

#include <ATen/ATen.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <thread>

#include "launch/launch.h"
#include "ranks/comm_settings.h"
#include "support/folder.h"

namespace local_ranks_test {

// "parent:" cases run in a process of their own and start the "rank:" cases, as `capstan run -n` starts itself.
namespace {
using namespace capstan;  // NOLINT(google-build-using-namespace)
using std::chrono::milliseconds;
using std::chrono::seconds;

struct Result {
  int exit_code = 0;
  std::string output;
};

/// Runs the hidden case `name` of this program and collects what it writes.
Result run(const std::string& name, const std::string& redirect = "2>&1") {
  const std::string program = std::filesystem::read_symlink("/proc/self/exe").string();
  FILE* pipe = popen(cat("'", program, "' '", name, "' ", redirect).c_str(), "r");
  REQUIRE(pipe != nullptr);
  Result result;
  std::array<char, 4096> buffer{};
  for (std::size_t count = 0; (count = fread(buffer.data(), 1, buffer.size(), pipe)) > 0;) {
    result.output.append(buffer.data(), count);
  }
  const int status = pclose(pipe);
  result.exit_code = WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

[[noreturn]] void as_parent(int n, const std::string& rank_case, milliseconds grace = seconds(10)) {
  peers::LocalStart start;
  start.ranks = n;
  start.arguments = {"test_app", rank_case};
  start.environment = ranks::all_variables();
  start.grace = grace;
  const int code = peers::run_local_ranks(start);
  std::cout << "parent returns " << code << std::endl;
  std::exit(code);
}

/// What the program's main does in a rank, whose exit code is `good` where nothing fails.
[[noreturn]] void as_rank(const std::function<void(comm::Communicator&)>& body, int good = 0) {
  auto code = static_cast<ExitCode>(good);
  try {
    comm::ConnectOptions options;
    const launch::Launch launch = launch::read_launch(launch::process_environment());
    options.world = launch.world;
    options.rendezvous = launch.rendezvous({});
    auto communicator = comm::connect(options);
    try {
      body(*communicator);
    } catch (const std::exception& error) {
      communicator->report_failure(error.what());
      throw;
    }
  } catch (const comm::PeerFailed& error) {
    code = ExitCode::peer_failed;
  } catch (const std::exception& error) {
    std::cerr << "error: " << error.what() << std::endl;
    code = ExitCode::failure;
  }
  std::exit(static_cast<int>(code));
}

std::shared_ptr<comm::Group> everyone(comm::Communicator& c) {
  std::vector<int> ranks;
  for (int rank = 0; rank < c.world().size; ++rank) ranks.push_back(rank);
  return c.group("all", ranks, at::kCPU);
}

void train_for_ever(comm::Communicator& c) {
  auto group = everyone(c);
  for (;;) group->all_reduce(at::ones({3}), comm::ReduceOp::sum, "gradients");
}

TEST_CASE("parent: works", "[.local]") { as_parent(3, "rank: works"); }
TEST_CASE("rank: works", "[.local]") {
  as_rank([](comm::Communicator& c) {
    const at::Tensor sum = at::full({1}, c.world().rank + 1, at::kLong);
    everyone(c)->all_reduce(sum, comm::ReduceOp::sum, "x");
    std::cout << "sum " << sum.item<std::int64_t>() << " on " << c.world().rank << "\nsecond line" << std::endl;
    std::cerr << "threads " << std::getenv("OMP_NUM_THREADS");  // no newline at the end
  });
}

TEST_CASE("local ranks: they find each other, and their output is told apart") {
  unsetenv("OMP_NUM_THREADS");
  const Result result = run("parent: works");
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, Contains("\nsum 6 on 0\nsecond line\n"));
  CHECK_THAT(result.output, Contains("[rank 1] sum 6 on 1\n") && Contains("[rank 1] second line\n"));
  CHECK_THAT(result.output, Contains("[rank 2] sum 6 on 2\n"));
  const unsigned threads = std::max(1U, std::thread::hardware_concurrency() / 3);
  CHECK_THAT(result.output, Contains(cat("[rank 2] threads ", threads, "\n")));
  CHECK_THAT(run("parent: works", "2>/dev/null").output, !Contains("threads"));  // errors stay on stderr
}

TEST_CASE("local ranks: OMP_NUM_THREADS of the user stays") {
  setenv("OMP_NUM_THREADS", "17", 1);
  const Result result = run("parent: works");
  unsetenv("OMP_NUM_THREADS");
  CHECK_THAT(result.output, Contains("[rank 2] threads 17\n"));
}

TEST_CASE("parent: fails", "[.local]") { as_parent(3, "rank: fails"); }
TEST_CASE("rank: fails", "[.local]") {
  as_rank([](comm::Communicator& c) {
    everyone(c)->barrier("start");
    if (c.world().rank == 1) throw Error("the disk is full");
    auto group = c.group("pair", {0, 2}, at::kCPU);
    for (;;) group->all_reduce(at::ones({3}), comm::ReduceOp::sum, "gradients");
  });
}

TEST_CASE("local ranks: the exit code is the first failing rank's, not a peer's") {
  const Result result = run("parent: fails");
  CHECK(result.exit_code == 1);
  CHECK_THAT(result.output, Contains("[rank 1] error: the disk is full"));
  CHECK_THAT(result.output, Contains("first error: rank 1 on ") && Contains(" failed: the disk is full"));
}

TEST_CASE("parent: all end alike", "[.local]") { as_parent(3, "rank: all end alike"); }
TEST_CASE("rank: all end alike", "[.local]") {
  const auto late = [](comm::Communicator& c) {
    everyone(c)->barrier("start");
    std::this_thread::sleep_for(milliseconds(300 * c.world().rank));
  };
  as_rank(late, 46);
}
TEST_CASE("parent: rank 1 ends silently", "[.local]") { as_parent(3, "rank: rank 1 ends silently"); }
TEST_CASE("rank: rank 1 ends silently", "[.local]") {
  as_rank([](comm::Communicator& c) {
    everyone(c)->barrier("start");
    if (c.world().rank == 1) std::_Exit(46);
    auto group = c.group("pair", {0, 2}, at::kCPU);
    for (;;) group->all_reduce(at::ones({3}), comm::ReduceOp::sum, "gradients");
  });
}

TEST_CASE(
    "local ranks: an exit code that all end with is no failure of one; where others continue they are told of it") {
  const Result alike = run("parent: all end alike");
  CHECK(alike.exit_code == 46);
  CHECK_THAT(alike.output, !Contains("failed"));
  const Result alone = run("parent: rank 1 ends silently");
  CHECK(alone.exit_code == 46);
  CHECK_THAT(alone.output, Contains("rank 1 on this host failed: it ended with exit code 46"));
}

TEST_CASE("parent: rank 2 is killed", "[.local]") { as_parent(3, "rank: rank 2 is killed"); }
TEST_CASE("rank: rank 2 is killed", "[.local]") {
  as_rank([](comm::Communicator& c) {
    everyone(c)->barrier("start");
    if (c.world().rank == 2) (void)raise(SIGKILL);
    c.group("pair", {0, 1}, at::kCPU);
    for (;;) (void)c.exchange("still here");
  });
}
TEST_CASE("parent: rank 0 is killed", "[.local]") { as_parent(3, "rank: rank 0 is killed"); }
TEST_CASE("rank: rank 0 is killed", "[.local]") {
  as_rank([](comm::Communicator& c) {
    if (c.world().rank == 0) (void)raise(SIGKILL);
    train_for_ever(c);
  });
}

TEST_CASE("local ranks: a rank that is killed, rank 0 too, ends all with the signal's name") {
  for (const int rank : {2, 0}) {
    const Result result = run(cat("parent: rank ", rank, " is killed"));
    CHECK(result.exit_code == 128 + SIGKILL);
    CHECK_THAT(result.output, Contains(cat("rank ", rank,
                                           " was killed by signal 9 (SIGKILL): most often by the kernel's "
                                           "out-of-memory killer")));
    CHECK_THAT(result.output,
               Contains(cat("first error: rank ", rank, " on this host failed: it was killed by signal 9 (SIGKILL)")));
  }
}

TEST_CASE("parent: signals", "[.local]") { as_parent(2, "rank: signals"); }
std::atomic<int> seen_signal{0};
TEST_CASE("rank: signals", "[.local]") {
  (void)std::signal(SIGUSR1, [](int signal) { seen_signal = signal; });
  as_rank([](comm::Communicator& c) {
    auto group = everyone(c);
    group->barrier("handlers are there");
    if (c.world().rank == 1) kill(getppid(), SIGUSR1);
    while (seen_signal == 0) std::this_thread::sleep_for(milliseconds(5));
    std::cout << "rank " << c.world().rank << " got " << seen_signal << std::endl;
    group->barrier("all got it");
  });
}

TEST_CASE("local ranks: signals reach all ranks") {
  const Result result = run("parent: signals");
  CHECK(result.exit_code == 0);
  CHECK_THAT(result.output, Contains(cat("rank 0 got ", SIGUSR1)) && Contains(cat("[rank 1] rank 1 got ", SIGUSR1)));
}

TEST_CASE("parent: stubborn", "[.local]") { as_parent(2, "rank: stubborn", milliseconds(1000)); }
TEST_CASE("rank: stubborn", "[.local]") {
  const launch::Launch launch = launch::read_launch(launch::process_environment());
  if (launch.world.rank == 0) std::exit(3);
  (void)std::signal(SIGTERM, SIG_IGN);
  for (;;) pause();
}

TEST_CASE("local ranks: one that does not end is made to") {
  const Result result = run("parent: stubborn");
  CHECK(result.exit_code == 3);
  CHECK_THAT(result.output, Contains("1 rank(s) did not end within 1 s of the failure: sending SIGTERM"));
}

TEST_CASE("parent: straggler", "[.local]") { as_parent(2, "rank: straggler", milliseconds(500)); }
TEST_CASE("rank: straggler", "[.local]") {
  as_rank([](comm::Communicator& c) {
    everyone(c)->barrier("all is done");
    if (c.world().rank == 1) (void)raise(SIGSTOP);
  });
}

TEST_CASE("local ranks: one that stops where the others have ended well is named and ended, not waited for") {
  const Result result = run("parent: straggler");
  CHECK(result.exit_code == static_cast<int>(ExitCode::peer_failed));
  CHECK_THAT(result.output, Contains("rank 1 did not end within 2.5 s of the first that did\n"));
}

TEST_CASE("parent: is killed", "[.local]") { as_parent(2, "rank: of a dead parent"); }
TEST_CASE("rank: of a dead parent", "[.local]") {
  const launch::Launch launch = launch::read_launch(launch::process_environment());
  write_file(cat(std::getenv("TEST_PID_FILE"), launch.world.rank), std::to_string(getpid()));
  if (launch.world.rank == 0) {
    while (!std::filesystem::exists(cat(std::getenv("TEST_PID_FILE"), 1))) std::this_thread::sleep_for(milliseconds(5));
    kill(getppid(), SIGKILL);
  }
  for (;;) pause();
}

TEST_CASE("local ranks: they die with their parent") {
  const test::Folder folder;
  setenv("TEST_PID_FILE", (folder / "pid").c_str(), 1);
  (void)run("parent: is killed");  // returns when the last of them has closed the pipe: only that is the proof
  for (const int rank : {0, 1}) {
    const int process = std::stoi(read_file(folder / cat("pid", rank)));
    CHECK_FALSE(std::filesystem::exists(cat("/proc/", process, "/exe")));  // gone, or a zombie of init's
  }
}

TEST_CASE("local ranks: bad numbers") {
  CHECK_THROWS_WITH(peers::run_local_ranks({}), Contains("cannot start 0 ranks"));
}

}  // namespace

}  // namespace local_ranks_test
