#include "comm/processes.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <capstan/base/exit_code.h>
#include <capstan/base/files.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <thread>

#include "comm/collective_cases.h"
#include "support/folder.h"

namespace comm_test {
namespace {

using capstan::cat;
namespace fs = std::filesystem;

// Only then a copy of this process is whole.
bool has_one_thread() {
  return std::distance(fs::directory_iterator("/proc/self/task"), fs::directory_iterator()) == 1;
}

// In a copy of this process LibTorch need not start again, which takes longer than what most ranks do.
[[noreturn]] void run_here(const std::string& name) noexcept {
  at::set_num_threads(1);
  for (const auto& test : Catch::getRegistryHub().getTestCaseRegistry().getAllTests()) {
    if (test.name == name) test.invoke();
  }
  std::exit(127);  // as_rank() has not ended the process
}

pid_t start_rank(const std::string& name, int rank, int size, const fs::path& folder) {
  const bool copies = has_one_thread();
  const pid_t child = fork();
  if (child != 0) return child;
  setenv("COMM_TEST_RANK", std::to_string(rank).c_str(), 1);
  setenv("COMM_TEST_SIZE", std::to_string(size).c_str(), 1);
  setenv("COMM_TEST_FOLDER", folder.c_str(), 1);
  setenv("OMP_NUM_THREADS", "1", 1);
  const std::string file = (folder / cat("output-", rank)).string();
  const int out = open(file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
  dup2(out, STDOUT_FILENO);
  dup2(out, STDERR_FILENO);
  if (copies) run_here(name);
  execl("/proc/self/exe", "test_comm", name.c_str(), nullptr);
  _exit(127);
}

int exit_code(int status) { return WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status); }

}  // namespace

std::vector<RankResult> run_ranks(const std::string& name, int size) {
  const test::Folder folder;
  std::vector<pid_t> children;
  for (int rank = 0; rank < size; ++rank) children.push_back(start_rank(name, rank, size, folder.path()));
  std::vector<RankResult> results;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  for (int rank = 0; rank < size; ++rank) {
    const pid_t child = children[static_cast<std::size_t>(rank)];
    int status = 0;
    while (waitpid(child, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > deadline) kill(child, SIGKILL);
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    results.push_back({exit_code(status), {}});
  }
  for (int rank = 0; rank < size; ++rank) {
    results[static_cast<std::size_t>(rank)].output = capstan::read_file(folder / cat("output-", rank));
  }
  return results;
}

capstan::comm::ConnectOptions rank_options() {
  std::signal(SIGPIPE, SIG_IGN);  // as the program does: writing to a dead peer is an error to report
  capstan::comm::ConnectOptions options;
  options.world.rank = options.world.local_rank = std::atoi(std::getenv("COMM_TEST_RANK"));
  options.world.size = options.world.local_size = std::atoi(std::getenv("COMM_TEST_SIZE"));
  options.world.host = "here";
  options.world.launcher = "local";
  options.rendezvous.file = cat(std::getenv("COMM_TEST_FOLDER"), "/rendezvous");
  options.deterministic = true;
  options.timeout = std::chrono::seconds(30);
  options.connect_timeout = std::chrono::seconds(30);
  options.on_stuck = [](const std::string& error) {
    std::cout << "stuck: " << error << std::endl;
    _exit(9);
  };
  return options;
}

capstan::comm::ConnectOptions at_an_address() {
  auto options = rank_options();
  options.rendezvous.file.clear();
  options.rendezvous.host = "127.0.0.1";
  options.rendezvous.port = std::atoi(std::getenv("COMM_TEST_PORT"));
  return options;
}

void as_rank(const capstan::comm::ConnectOptions& options,
             const std::function<void(capstan::comm::Communicator&)>& body) {
  auto code = capstan::ExitCode::success;
  try {
    auto communicator = capstan::comm::connect(options);
    try {
      body(*communicator);
    } catch (const std::exception& error) {
      communicator->report_failure(error.what());
      throw;
    }
  } catch (const capstan::comm::PeerFailed& error) {
    std::cout << "peer failed: " << error.what() << std::endl;
    code = capstan::ExitCode::peer_failed;
  } catch (const std::exception& error) {
    std::cout << "threw: " << error.what() << std::endl;
    code = capstan::ExitCode::failure;
  }
  std::exit(static_cast<int>(code));
}

void all_reduce_for_ever(capstan::comm::Communicator& c) {
  auto group = everyone(c);
  for (;;) group->all_reduce(at::ones({3}), capstan::comm::ReduceOp::sum, "gradients");
}

void check_all_succeeded(const std::vector<RankResult>& ranks) {
  for (const RankResult& rank : ranks) {
    INFO(rank.output);
    CHECK(rank.exit_code == 0);
  }
}

void check_peers(const std::vector<RankResult>& ranks, std::size_t failed, const std::string& first_error) {
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (i == failed) continue;
    CHECK(ranks[i].exit_code == 75);
    CHECK_THAT(ranks[i].output, Contains("peer failed: " + first_error));
    CHECK_THAT(ranks[i].output, Contains("capstan error: first error: " + first_error));
    CHECK_THAT(ranks[i].output, Contains("while in all-reduce 'gradients' of group all, call "));
  }
}

}  // namespace comm_test
