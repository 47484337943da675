// The "rank:" cases run in the processes that the others start.
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include "comm/connect.h"

#include <ATen/ATen.h>

#include <cstdlib>
#include <thread>

#include "comm/collective_cases.h"
#include "comm/processes.h"

namespace connected_test {

namespace {
using namespace capstan;        // NOLINT(google-build-using-namespace)
using namespace capstan::comm;  // NOLINT(google-build-using-namespace)
using comm_test::all_reduce_for_ever;
using comm_test::as_rank;
using comm_test::check_all_succeeded;
using comm_test::check_peers;
using comm_test::everyone;
using comm_test::rank_options;
using comm_test::RankResult;
using comm_test::run_ranks;
using std::chrono::milliseconds;

const c10::Device cpu(c10::kCPU);

TEST_CASE("connect: one rank alone opens nothing and copies") {
  const auto alone = connect(ConnectOptions{});
  CHECK(alone->backend(cpu) == "none");
  CHECK(alone->exchange("me") == std::vector<std::string>{"me"});
  const auto group = alone->group("dp", {0}, cpu);
  const at::Tensor in = at::arange(6).view({3, 2});
  const at::Tensor out = at::zeros_like(in);
  group->reduce_scatter(out, in, "x");
  CHECK(out.equal(in));
  group->all_gather(out.zero_(), in, "x");
  CHECK(out.equal(in));
  group->all_to_all(out.zero_(), in, {3}, {3}, "x");
  CHECK(out.equal(in));
  group->all_reduce(out, ReduceOp::sum, "x");
  group->broadcast(out, 0, "x");
  group->start_all_reduce(out, ReduceOp::max, "x")->wait();
  group->start_all_gather(out.zero_(), in, "x")->wait();
  CHECK(out.equal(in));
  group->start_reduce_scatter(out.zero_(), in, "x")->wait();
  group->barrier("x");
  CHECK(out.equal(in));
  CHECK_THROWS_WITH(alone->group("dp", {0}, cpu), Contains("the group name 'dp' is used twice"));
}

TEST_CASE("rank: exchange", "[.rank]") {
  as_rank(rank_options(), [](Communicator& c) {
    const auto text = [](int rank) { return cat("I am ", rank, std::string(static_cast<std::size_t>(rank), '\0')); };
    for (int round = 0; round < 3; ++round) {
      const auto texts = c.exchange(text(c.world().rank + round));
      for (int rank = 0; rank < c.world().size; ++rank) {
        comm_test::require(texts[static_cast<std::size_t>(rank)] == text(rank + round), "exchange");
      }
    }
    comm_test::require(c.backend(at::kCPU) == "gloo", "backend");
    if (c.world().rank == 0)
      std::this_thread::sleep_for(milliseconds(300));  // others leave first, and it is no failure
    if (c.world().rank == 2) std::this_thread::sleep_for(milliseconds(1500));  // nor if rank 0 has to wait
  });
}

TEST_CASE("processes: exchange, and ranks that end at different times") {
  check_all_succeeded(run_ranks("rank: exchange", 3));
}

TEST_CASE("rank: disagree", "[.rank]") {
  as_rank(rank_options(), [](Communicator& c) {
    (void)c.group("x", c.world().rank == 0 ? std::vector<int>{0, 1} : std::vector<int>{1, 0}, at::kCPU);
  });
}

TEST_CASE("processes: ranks that disagree about a group") {
  for (const RankResult& rank : run_ranks("rank: disagree", 2)) {
    CHECK_THAT(rank.output, Contains("ranks disagree about the members of group x"));
  }
}

TEST_CASE("rank: unwinds", "[.rank]") {
  if (rank_options().world.rank == 0) as_rank(rank_options(), all_reduce_for_ever);
  try {
    auto communicator = connect(rank_options());
    everyone(*communicator)->all_reduce(at::ones({3}), ReduceOp::sum, "gradients");
    throw Error("nobody reports this");
  } catch (const Error&) {
    std::exit(1);
  }
}

TEST_CASE("processes: a communicator that an exception destroys is no normal end") {
  const auto ranks = run_ranks("rank: unwinds", 2);
  check_peers(ranks, 1, "rank 1 on here failed: it ended by an exception, see its output");
}

}  // namespace

}  // namespace connected_test
