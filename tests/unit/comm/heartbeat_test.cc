// What ranks learn of each other's end, and of a collective that does not end.
// The "rank:" cases run in the processes that the others start.
#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <ATen/ATen.h>
#include <arpa/inet.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <thread>

#include "comm/collective_cases.h"
#include "comm/processes.h"

namespace heartbeat_test {

namespace {
using namespace capstan;        // NOLINT(google-build-using-namespace)
using namespace capstan::comm;  // NOLINT(google-build-using-namespace)
using comm_test::all_reduce_for_ever;
using comm_test::as_rank;
using comm_test::check_peers;
using comm_test::everyone;
using comm_test::rank_options;
using comm_test::RankResult;
using comm_test::run_ranks;
using std::chrono::seconds;

TEST_CASE("rank: one throws", "[.rank]") {
  as_rank(rank_options(), [](Communicator& c) {
    auto group = everyone(c);
    group->barrier("start");
    if (c.world().rank == 1) throw Error("the disk is full", "free some space");
    for (;;) group->all_reduce(at::ones({3}), ReduceOp::sum, "gradients");
  });
}

TEST_CASE("processes: one rank throws, the others end with its error") {
  const auto ranks = run_ranks("rank: one throws", 3);
  CHECK(ranks[1].exit_code == 1);
  CHECK_THAT(ranks[1].output, Contains("threw: the disk is full"));
  CHECK_THAT(ranks[1].output, !Contains("first error"));
  check_peers(ranks, 1, "rank 1 on here failed: the disk is full");
}

TEST_CASE("rank: rank 0 throws", "[.rank]") {
  as_rank(rank_options(), [](Communicator& c) {
    if (c.world().rank == 0) throw Error("the disk is full");
    all_reduce_for_ever(c);
  });
}

TEST_CASE("processes: rank 0, where the store lives, throws while others make a group") {
  const auto ranks = run_ranks("rank: rank 0 throws", 3);
  CHECK(ranks[0].exit_code == 1);
  for (const std::size_t i : {1U, 2U}) {
    CHECK(ranks[i].exit_code == 75);
    CHECK_THAT(ranks[i].output, Contains("peer failed: rank 0 on here failed: the disk is full"));
  }
}

TEST_CASE("rank: one is killed", "[.rank]") {
  as_rank(rank_options(), [](Communicator& c) {
    auto group = everyone(c);
    group->barrier("start");
    if (c.world().rank == 1) (void)raise(SIGKILL);
    for (;;) group->all_reduce(at::ones({3}), ReduceOp::sum, "gradients");
  });
}

TEST_CASE("processes: one rank is killed, the others name it within seconds") {
  const auto ranks = run_ranks("rank: one is killed", 3);
  CHECK(ranks[1].exit_code == -SIGKILL);
  check_peers(ranks, 1, "rank 1 on here failed: it has not been heard of for ");
}

TEST_CASE("rank: rank 0 is killed", "[.rank]") {
  as_rank(rank_options(), [](Communicator& c) {
    auto group = everyone(c);
    group->barrier("start");
    if (c.world().rank == 0) (void)raise(SIGKILL);
    for (;;) group->all_reduce(at::ones({3}), ReduceOp::sum, "gradients");
  });
}

TEST_CASE("processes: rank 0 is killed, and with it the store") {
  const auto ranks = run_ranks("rank: rank 0 is killed", 3);
  CHECK(ranks[0].exit_code == -SIGKILL);
  check_peers(ranks, 0, "rank 0 on here is gone: its connections are closed");
}

TEST_CASE("rank: one is stopped", "[.rank]") {
  auto options = rank_options();
  options.silence = seconds(3);
  as_rank(options, [](Communicator& c) {
    auto group = everyone(c);
    group->barrier("start");
    const int victim = c.world().size == 2 ? 0 : 1;
    if (c.world().rank == victim) {
      if (fork() == 0) {  // wakes it up again when all is over, and it finds out
        std::this_thread::sleep_for(seconds(8));
        (void)kill(getppid(), SIGCONT);
        _exit(0);
      }
      (void)raise(SIGSTOP);
    }
    for (;;) group->all_reduce(at::ones({3}), ReduceOp::sum, "gradients");
  });
}

TEST_CASE("processes: a rank that falls silent without closing anything") {
  const auto ranks = run_ranks("rank: one is stopped", 3);
  check_peers(ranks, 1, "rank 1 on here failed: it has not been heard of for ");
  CHECK(ranks[1].exit_code != 0);
}

TEST_CASE("processes: rank 0 falls silent, and with it the store") {
  const auto ranks = run_ranks("rank: one is stopped", 2);
  check_peers(ranks, 0, "rank 0 on here has not answered for 3 s");
}

TEST_CASE("rank: one ends early", "[.rank]") {
  as_rank(rank_options(), [](Communicator& c) {
    auto group = everyone(c);
    group->barrier("start");
    if (c.world().rank == 1) return;
    for (;;) group->all_reduce(at::ones({3}), ReduceOp::sum, "gradients");
  });
}

TEST_CASE("processes: a rank ends normally while others wait for it") {
  const auto ranks = run_ranks("rank: one ends early", 3);
  CHECK(ranks[1].exit_code == 0);
  check_peers(ranks, 1, "rank 1 on here failed: it ended while others still communicate with it");
}

TEST_CASE("rank: a hang", "[.rank]") {
  auto options = rank_options();
  options.timeout = seconds(2);
  as_rank(options, [](Communicator& c) {
    auto group = everyone(c);
    group->barrier("start");
    if (c.world().rank == 1) std::this_thread::sleep_for(seconds(8));
    group->all_reduce(at::ones({3}), ReduceOp::sum, "gradients");
  });
}

TEST_CASE("processes: a collective that does not end is reported with who is where") {
  const auto ranks = run_ranks("rank: a hang", 3);
  for (const RankResult& rank : ranks) {
    CHECK(rank.exit_code == 75);
    CHECK_THAT(rank.output, Contains("peer failed: all-reduce 'gradients' of group all, call 2, has not ended for "));
    CHECK_THAT(rank.output,
               Contains(" s:\n    ranks 0, 2 wait in it\n    rank 1 on here is in no collective; its last was barrier "
                        "'start' of group all, call 1\n    it waits for rank 1\n"));
  }
  CHECK_THAT(ranks[0].output,
             Contains("capstan error: rank 0 was in all-reduce 'gradients' of group all, call 2, for "));
}

TEST_CASE("rank: skips one", "[.rank]") {
  auto options = rank_options();
  options.timeout = seconds(2);
  as_rank(options, [](Communicator& c) {
    auto group = everyone(c);
    const int size = c.world().size;
    group->barrier("start");
    if (c.world().rank != 1) group->all_gather(at::empty({std::int64_t{3} * size}), at::ones({3}), "blocks.13");
    group->reduce_scatter(at::empty({3}), at::ones({std::int64_t{3} * size}), "blocks.12");
  });
}

TEST_CASE("processes: a rank that skips a collective is told from those that do not") {
  for (const RankResult& rank : run_ranks("rank: skips one", 3)) {
    CHECK(rank.exit_code == 75);
    CHECK_THAT(rank.output, Contains("of group all, call 2, has not ended for "));
    CHECK_THAT(rank.output, Contains("the ranks call different collectives: each of a group must call the same ones"));
    // Whoever reports, both sides are named with what they are in.
    const bool by_the_one = rank.output.find("peer failed: reduce-scatter") != std::string::npos;
    CHECK_THAT(rank.output,
               by_the_one ? Contains("\n    rank 1 waits in it\n    ranks 0, 2 on here are in all-gather 'blocks.13'")
                          : Contains("\n    ranks 0, 2 wait in it\n    rank 1 on here is in reduce-scatter 'blocks.12' "
                                     "of group all, call 2\n"));
  }
}

/// Ends every connection of this process but those to the store.
void cut_connections(const std::string& store) {
  const int store_port = std::atoi(store.substr(store.rfind(':') + 1).c_str());
  for (int fd = 3; fd < 1024; ++fd) {
    sockaddr_in own{};
    sockaddr_in peer{};
    socklen_t size = sizeof own;
    socklen_t peer_size = sizeof peer;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&own), &size) != 0) continue;
    if (getpeername(fd, reinterpret_cast<sockaddr*>(&peer), &peer_size) != 0) continue;
    if (ntohs(own.sin_port) != store_port && ntohs(peer.sin_port) != store_port) shutdown(fd, SHUT_RDWR);
  }
}

TEST_CASE("rank: the network is cut", "[.rank]") {
  auto options = rank_options();
  options.silence = seconds(4);
  as_rank(options, [](Communicator& c) {
    auto group = everyone(c);
    const std::string store = c.exchange(c.rendezvous()).front();
    group->barrier("start");
    if (c.world().rank == 1) cut_connections(store);
    group->all_reduce(at::ones({3}), ReduceOp::sum, "gradients");
  });
}

TEST_CASE("processes: a connection that breaks between ranks that live says where all were") {
  const auto ranks = run_ranks("rank: the network is cut", 2);
  std::string all;
  for (const RankResult& rank : ranks) {
    CHECK((rank.exit_code == 1 || rank.exit_code == 75));
    all += rank.output;
  }
  CHECK_THAT(all, Contains("it lost the connection to a peer: ") &&
                      Contains("\n  all-reduce 'gradients' of group all, call 2, has not ended for ") &&
                      Contains("\n    ranks 0, 1 wait in it\n    all of its ranks are in it: the network or a device"));
}

}  // namespace

}  // namespace heartbeat_test
