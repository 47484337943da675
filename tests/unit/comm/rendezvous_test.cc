// The "rank:" cases run in the processes that the others start.
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include "comm/connect.h"

#include <ATen/ATen.h>

#include <cstdlib>
#include <iostream>
#include <thread>

#include "comm/processes.h"
#include "peers/network.h"
#include "peers/store.h"
#include "support/folder.h"

namespace rendezvous_test {

namespace {
using namespace capstan;        // NOLINT(google-build-using-namespace)
using namespace capstan::comm;  // NOLINT(google-build-using-namespace)
using comm_test::all_reduce_for_ever;
using comm_test::as_rank;
using comm_test::at_an_address;
using comm_test::check_all_succeeded;
using comm_test::rank_options;
using comm_test::run_ranks;
using peers::address_towards;
using peers::serve_store;
using std::chrono::milliseconds;
using std::chrono::seconds;

ConnectOptions two_ranks() {
  ConnectOptions options;
  options.world.size = options.world.local_size = 2;
  options.world.host = "here";
  options.connect_timeout = milliseconds(300);
  return options;
}

TEST_CASE("connect: a port that is taken is named") {
  const auto other = serve_store("127.0.0.1", 0, "other");
  ConnectOptions options = two_ranks();
  options.rendezvous.host = "localhost";
  options.rendezvous.port = other->port();
  CHECK_THROWS_WITH(connect(options),
                    Contains(cat("port ", other->port(), " for the ranks' rendezvous is already taken")) &&
                        Contains("set MASTER_PORT to a free port"));
}

TEST_CASE("connect: no rank 0") {
  ConnectOptions options = two_ranks();
  options.world.rank = 1;
  SECTION("its file does not appear") {
    options.rendezvous.file = "/does/not/exist/rendezvous";
    CHECK_THROWS_WITH(connect(options), Contains("rank 1 found no rank 0: /does/not/exist/rendezvous did not appear") &&
                                            Contains("must be shared by all nodes"));
  }
  int free_port = 0;
  { free_port = serve_store("127.0.0.1", 0, "gone")->port(); }
  SECTION("its file is an old one") {
    const test::Folder folder;
    const auto file = folder.write("rendezvous", cat("127.0.0.1:", free_port, "\n"));
    options.rendezvous.file = file;
    CHECK_THROWS_WITH(connect(options),
                      Contains(cat("no process answers at 127.0.0.1:", free_port, ", which ", file, " names")));
  }
  SECTION("nobody listens at MASTER_ADDR") {
    options.rendezvous.host = "localhost";
    options.rendezvous.port = free_port;
    CHECK_THROWS_WITH(connect(options), Contains(cat("rank 1 cannot reach the rendezvous at localhost:", free_port)));
  }
}

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
  if (options.world.rank > 1) std::this_thread::sleep_for(seconds(5));  // long enough for two notices, each after 0.3 s
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
  const int port = serve_store("127.0.0.1", 0, "x")->port();
  setenv("COMM_TEST_PORT", std::to_string(port).c_str(), 1);
  check_all_succeeded(run_ranks("rank: a store under two addresses", 3));
}

TEST_CASE("rank: reserved ports", "[.rank]") {
  auto options = rank_options();
  options.rendezvous.ports = {std::atoi(std::getenv("COMM_TEST_PORT")), std::atoi(std::getenv("COMM_TEST_PORT_2"))};
  as_rank(options, [](Communicator& c) { std::cout << "met at " << c.rendezvous() << std::endl; });
}

TEST_CASE("processes: the first free one of the ports that the launcher reserved is taken") {
  const auto taken = serve_store("127.0.0.1", 0, "x");
  auto other = serve_store("127.0.0.1", 0, "x");
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

}  // namespace rendezvous_test
