// Work that ranks do apart and end together, in processes: run_ranks starts them with the "rank:" cases.
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>

#include <thread>

#include "comm/agree.h"
#include "comm/collective_cases.h"
#include "comm/processes.h"

namespace agree_test {

namespace {
using namespace capstan;        // NOLINT(google-build-using-namespace)
using namespace capstan::comm;  // NOLINT(google-build-using-namespace)
using comm_test::as_rank;
using comm_test::everyone;
using comm_test::rank_options;
using comm_test::require;
using std::chrono::seconds;

// The time limit of a collective here.
auto impatient() {
  auto options = rank_options();
  options.timeout = seconds(2);
  return options;
}

TEST_CASE("rank: slow work", "[.rank]") {
  as_rank(impatient(), [](Communicator& c) {
    auto group = everyone(c);
    const auto rank = c.world().rank;
    const auto work = [&] {
      if (rank == 1) std::this_thread::sleep_for(seconds(5));
      return std::to_string(rank);
    };
    require(agree(*group, "saving", "files", work) == std::vector<std::string>{"0", "1", "2"}, "all results, by rank");
    group->barrier("afterwards");
  });
}

TEST_CASE("processes: a rank whose work takes longer than the time limit is waited for") {
  comm_test::check_all_succeeded(comm_test::run_ranks("rank: slow work", 3));
}

TEST_CASE("rank: slow work fails", "[.rank]") {
  as_rank(impatient(), [](Communicator& c) {
    auto group = everyone(c);
    const auto work = [&]() -> std::string {
      if (c.world().rank != 1) return "done";
      std::this_thread::sleep_for(seconds(3));
      throw Error("the disk is full", "free some space");
    };
    agree(*group, "saving", "files", work);
  });
}

TEST_CASE("processes: what slow work throws at last is every rank's") {
  for (const auto& rank : comm_test::run_ranks("rank: slow work fails", 2)) {
    CHECK(rank.exit_code == 1);
    CHECK_THAT(rank.output, Contains("threw: the disk is full\n    fix: free some space\n    while saving on rank 1"));
  }
}

TEST_CASE("rank: killed in slow work", "[.rank]") {
  as_rank(rank_options(), [](Communicator& c) {
    auto group = everyone(c);
    const auto work = [&] {
      if (c.world().rank == 1) std::_Exit(3);
      std::this_thread::sleep_for(seconds(1));
      return std::string();
    };
    agree(*group, "saving", "files", work);
  });
}

TEST_CASE("processes: a rank that dies in its work ends the others' wait") {
  const auto ranks = comm_test::run_ranks("rank: killed in slow work", 2);
  CHECK(ranks[0].exit_code == 75);
  CHECK_THAT(ranks[0].output, Contains("rank 1 on here failed: it has not been heard of for "));
}

}  // namespace

}  // namespace agree_test
