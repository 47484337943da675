// The "rank:" cases run in the processes that the others start.
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include "comm/connect.h"

#include <chrono>
#include <cstdlib>
#include <thread>

#include "comm/processes.h"
#include "peers/peers.h"

namespace early_failure_test {

namespace {
using namespace capstan;        // NOLINT(google-build-using-namespace)
using namespace capstan::comm;  // NOLINT(google-build-using-namespace)
using comm_test::all_reduce_for_ever;
using comm_test::as_rank;
using comm_test::at_an_address;
using comm_test::rank_options;
using comm_test::run_ranks;
using peers::report_early_failure;
using peers::serve_store;
using std::chrono::milliseconds;
using std::chrono::seconds;

/// Rank `failing` finds a fault before it connects. Each rank comes later than the one before it, so that the last one
/// comes when the others know of the fault already.
void fail_early(ConnectOptions options, int failing) {
  options.connect_timeout = seconds(50);
  std::this_thread::sleep_for(milliseconds(500) * options.world.rank);
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

TEST_CASE("rank: rank 1 fails early, by address", "[.rank]") { fail_early(at_an_address(), 1); }
TEST_CASE("rank: rank 0 fails early, by address", "[.rank]") { fail_early(at_an_address(), 0); }

TEST_CASE("processes: the same where the rendezvous is an address") {
  const int port = serve_store("127.0.0.1", 0, "x")->port();  // free, and likely to stay so
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

}  // namespace

}  // namespace early_failure_test
