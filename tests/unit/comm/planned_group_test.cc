#include "comm/planned_group.h"

#include <ATen/ATen.h>
#include <capstan_catch.h>

#include "comm/collective_cases.h"

namespace planned_group_test {

namespace {
using namespace capstan;        // NOLINT(google-build-using-namespace)
using namespace capstan::comm;  // NOLINT(google-build-using-namespace)

TEST_CASE("planned group: on the meta device a listener is told the bytes of all ranks, and of nothing else") {
  const c10::Device meta(c10::kMeta);
  PlannedGroup group("dp", {2, 5}, 1, meta);
  const auto one = at::empty({3}, meta);
  const auto both = at::empty({6}, meta);
  std::vector<std::string> told;
  {
    const PlannedCalls listens([&](const PlannedCall& call) {
      CHECK(call.ranks == std::vector<int>{2, 5});
      told.push_back(call.operation + " " + std::to_string(call.bytes));
    });
    group.all_reduce(one, ReduceOp::sum, "x");
    group.all_gather(both, one, "x");
    group.reduce_scatter(one, both, "x");
    group.broadcast(one, 0, "x");
    group.all_to_all(one, both, {1, 2}, {3, 3}, "x");
    group.start_all_gather(both, one, "x")->wait();
    group.barrier("x");
    group.all_reduce(at::empty({0}, meta), ReduceOp::sum, "x");
  }
  group.all_reduce(one, ReduceOp::sum, "x");
  CHECK(told == std::vector<std::string>{"all-reduce 12", "all-gather 24", "reduce-scatter 24", "broadcast 12",
                                         "all-to-all 24", "all-gather 24"});
}

TEST_CASE("planned group: what goes from one rank to another is told by the sender, with both ranks") {
  const c10::Device meta(c10::kMeta);
  PlannedGroup group("pp", {2, 5, 7}, 1, meta);
  const auto two = at::empty({2}, meta);
  std::vector<PlannedCall> told;
  {
    const PlannedCalls listens([&](const PlannedCall& call) { told.push_back(call); });
    const auto sent = group.start_send(two, 2, "x");
    CHECK(sent->has_ended());
    group.receive(two, 0, "x");
    group.start_receive(two, 0, "x")->wait();
  }
  REQUIRE(told.size() == 1);
  CHECK(told[0].operation == "transfer");
  CHECK(told[0].ranks == std::vector<int>{5, 7});
  CHECK(told[0].bytes == 8);
}

TEST_CASE("planned group: a call with values is a bug until the group is connected, and then the ranks' own") {
  run_in_process(2, [](Communicator& c) {
    PlannedGroup group("dp", {0, 1}, c.world().rank, at::kCPU);
    const auto sum = at::full({2}, c.world().rank + 1, at::kLong);
    bool refused = false;
    try {
      group.all_reduce(sum, ReduceOp::sum, "x");
    } catch (const std::logic_error&) {
      refused = true;
    }
    comm_test::require(refused && sum.eq(c.world().rank + 1).all().item<bool>(), "refused");
    group.connect(c);
    group.all_reduce(sum, ReduceOp::sum, "x");
    comm_test::require(sum.eq(3).all().item<bool>(), "the sum of both ranks");
  });
}

}  // namespace

}  // namespace planned_group_test
