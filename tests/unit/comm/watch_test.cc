// The "rank:" cases run in the processes that the others start.
#include <capstan/base/error.h>
#include <capstan_catch.h>

#include <thread>

#include "comm/processes.h"

namespace watch_test {

namespace {
using namespace capstan;        // NOLINT(google-build-using-namespace)
using namespace capstan::comm;  // NOLINT(google-build-using-namespace)
using comm_test::as_rank;
using comm_test::rank_options;
using comm_test::run_ranks;
using std::chrono::seconds;

TEST_CASE("rank: main thread stuck", "[.rank]") {
  auto options = rank_options();
  options.patience = seconds(1);
  as_rank(options, [](Communicator& c) {
    if (c.world().rank == 1) throw Error("the disk is full");
    std::this_thread::sleep_for(seconds(40));
  });
}

TEST_CASE("processes: a main thread that notices nothing is handed to the executable") {
  const auto ranks = run_ranks("rank: main thread stuck", 2);
  CHECK(ranks[1].exit_code == 1);
  CHECK(ranks[0].exit_code == 9);
  CHECK_THAT(ranks[0].output, Contains("stuck: rank 1 on here failed: the disk is full"));
  CHECK_THAT(ranks[0].output, Contains("the main thread is stuck and does not notice the failure"));
}

}  // namespace

}  // namespace watch_test
