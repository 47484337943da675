#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include "comm/connect.h"

#include <ATen/ATen.h>

#include <cstdlib>
#include <iostream>
#include <thread>

#include "comm/collective_cases.h"
#include "comm/network.h"
#include "comm/processes.h"
#include "comm/store.h"

// The "rank:" cases run in the processes that the others start.
namespace {
using namespace capstan;  // NOLINT(google-build-using-namespace)
using namespace capstan::comm;
using comm_test::all_reduce_for_ever;
using comm_test::as_rank;
using comm_test::check_all_succeeded;
using comm_test::rank_options;
using comm_test::run_ranks;
using std::chrono::milliseconds;
using std::chrono::seconds;
using store::Store;  // NOLINT(google-build-using-namespace)

TEST_CASE("rank: one does not come", "[.rank]") {
  auto options = rank_options();
  options.connect_timeout = seconds(2);
  if (options.world.rank == 2) return;
  as_rank(options, all_reduce_for_ever);
}

TEST_CASE("processes: a rank that never comes is named") {
  const auto ranks = run_ranks("rank: one does not come", 3);
  CHECK(ranks[0].exit_code == 1);
  CHECK_THAT(ranks[0].output, Contains("threw: rank 2 of 3 did not connect within 0:02"));
  CHECK(ranks[1].exit_code == 75);
  CHECK_THAT(ranks[1].output, Contains("peer failed: rank 0 on here failed: rank 2 of 3 did not connect"));
}

TEST_CASE("rank: one is late", "[.rank]") {
  auto options = rank_options();
  options.news = milliseconds(300);
  options.hosts = {"a", "a", "b", "b"};
  if (options.world.rank > 1) std::this_thread::sleep_for(seconds(2));
  as_rank(options, [](Communicator& c) {
    if (c.world().rank == 3) std::cout << "met at " << c.rendezvous() << std::endl;
  });
}

TEST_CASE("processes: who is missing is said with its host, again and again") {
  const auto ranks = run_ranks("rank: one is late", 4);
  check_all_succeeded(ranks);
  const std::string news = "capstan warning: connected 2/4, waiting for ranks 2, 3 on b\n";
  const auto first = ranks[0].output.find(news);
  REQUIRE(first != std::string::npos);
  CHECK(ranks[0].output.find(news, first + 1) != std::string::npos);
  CHECK_THAT(ranks[1].output, !Contains("waiting"));
}

/// Rank `failing` finds a fault before it connects.
void fail_early(ConnectOptions options, int failing) {
  options.connect_timeout = seconds(50);
  if (options.world.rank == failing) {
    report_early_failure(options, "it sees no GPU");
    std::exit(1);
  }
  as_rank(options, all_reduce_for_ever);
}

TEST_CASE("rank: rank 1 fails early", "[.rank]") { fail_early(rank_options(), 1); }
TEST_CASE("rank: rank 0 fails early", "[.rank]") { fail_early(rank_options(), 0); }

TEST_CASE("processes: a rank that fails before it connects ends the others at once") {
  for (const std::size_t failing : {1U, 0U}) {
    const auto start = std::chrono::steady_clock::now();
    const auto ranks = run_ranks(cat("rank: rank ", failing, " fails early"), 3);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      CHECK(ranks[i].exit_code == (i == failing ? 1 : 75));
      if (i == failing) continue;
      CHECK_THAT(ranks[i].output, Contains(cat("peer failed: rank ", failing, " on here failed: it sees no GPU")));
    }
    CHECK(std::chrono::steady_clock::now() - start < seconds(40));  // and not at their time limit
  }
}

/// A rendezvous by address, as MASTER_ADDR and MASTER_PORT give it.
ConnectOptions at_an_address() {
  auto options = rank_options();
  options.rendezvous.file.clear();
  options.rendezvous.host = "127.0.0.1";
  options.rendezvous.port = std::atoi(std::getenv("COMM_TEST_PORT"));
  return options;
}

TEST_CASE("rank: a store under two addresses", "[.rank]") {
  auto options = at_an_address();
  if (options.world.rank == 1) options.rendezvous.host = "::1";
  as_rank(options, [](Communicator& c) {
    const auto sum = at::ones({3});
    c.group("all", {0, 1, 2}, at::Device(at::kCPU))->all_reduce(sum, ReduceOp::sum, "ones");
    if (!sum.eq(3).all().item<bool>()) throw std::runtime_error("another sum");
  });
}

TEST_CASE("processes: a rank that found the store by IPv6 computes with those that found it by IPv4") {
  if (address_towards("::1").empty()) return;  // a host without IPv6
  const int port = Store::serve("127.0.0.1", 0, "x")->port();
  setenv("COMM_TEST_PORT", std::to_string(port).c_str(), 1);
  check_all_succeeded(run_ranks("rank: a store under two addresses", 3));
}

TEST_CASE("rank: rank 1 fails early, by address", "[.rank]") { fail_early(at_an_address(), 1); }
TEST_CASE("rank: rank 0 fails early, by address", "[.rank]") { fail_early(at_an_address(), 0); }

TEST_CASE("processes: the same where the rendezvous is an address") {
  const int port = Store::serve("127.0.0.1", 0, "x")->port();  // free, and likely to stay so
  setenv("COMM_TEST_PORT", std::to_string(port).c_str(), 1);
  for (const std::size_t failing : {1U, 0U}) {
    const auto ranks = run_ranks(cat("rank: rank ", failing, " fails early, by address"), 3);
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      CHECK(ranks[i].exit_code == (i == failing ? 1 : 75));
      if (i == failing) continue;
      CHECK_THAT(ranks[i].output, Contains(cat("peer failed: rank ", failing, " on here failed: it sees no GPU")));
    }
  }
}

TEST_CASE("rank: reserved ports", "[.rank]") {
  auto options = rank_options();
  options.rendezvous.ports = {std::atoi(std::getenv("COMM_TEST_PORT")), std::atoi(std::getenv("COMM_TEST_PORT_2"))};
  as_rank(options, [](Communicator& c) { std::cout << "met at " << c.rendezvous() << std::endl; });
}

TEST_CASE("processes: the first free one of the ports that the launcher reserved is taken") {
  const auto taken = Store::serve("127.0.0.1", 0, "x");
  auto other = Store::serve("127.0.0.1", 0, "x");
  const int free = other->port();
  setenv("COMM_TEST_PORT", std::to_string(taken->port()).c_str(), 1);
  setenv("COMM_TEST_PORT_2", std::to_string(free).c_str(), 1);
  auto ranks = run_ranks("rank: reserved ports", 2);
  CHECK(ranks[0].exit_code == 1);
  CHECK_THAT(ranks[0].output, Contains("none of the ports that SLURM reserved for this step can be used:") &&
                                  Contains(cat("port ", free, " for the ranks' rendezvous is already taken")) &&
                                  Contains("--resv-ports"));
  CHECK(ranks[1].exit_code == 75);  // told at once
  CHECK_THAT(ranks[1].output, Contains("peer failed: rank 0 on here failed: none of the ports that SLURM reserved"));
  other.reset();
  ranks = run_ranks("rank: reserved ports", 2);
  check_all_succeeded(ranks);
  CHECK_THAT(ranks[0].output, Contains(cat("met at 127.0.0.1:", free, "\n")));
}

TEST_CASE("rank: twins", "[.rank]") {
  auto options = rank_options();
  options.connect_timeout = seconds(4);
  if (options.world.rank == 2) options.world.rank = 1;
  as_rank(options, all_reduce_for_ever);
}

TEST_CASE("processes: two processes that are the same rank") {
  const auto ranks = run_ranks("rank: twins", 3);
  CHECK_THAT(ranks[1].output + ranks[2].output, Contains("threw: two processes are rank 1: on here and on here"));
}

}  // namespace
