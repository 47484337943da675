#include <capstan/base/error.h>
#include <capstan/comm/group.h>
#include <capstan_catch.h>

#include <ATen/ATen.h>

#include "peers/call_log.h"

namespace group_test {

namespace {
using namespace capstan;        // NOLINT(google-build-using-namespace)
using namespace capstan::comm;  // NOLINT(google-build-using-namespace)

// A group of two ranks, the second of which does not exist. It notes what it is asked for.
class Noting final : public Group {
 public:
  explicit Noting(std::shared_ptr<peers::CallLog> log) : Group("dp", {0, 1}, 0, at::kCPU, std::move(log)) {}
  std::vector<std::string> asked;
  bool fails = false;

 private:
  void note(const char* what) {
    if (fails) throw Error("the network is cut", "mend it");
    asked.emplace_back(what);
  }
  void do_all_reduce(const at::Tensor&, ReduceOp) override { note("all-reduce"); }
  void do_all_gather(const at::Tensor&, const at::Tensor&) override { note("all-gather"); }
  void do_reduce_scatter(const at::Tensor&, const at::Tensor&) override { note("reduce-scatter"); }
  void do_broadcast(const at::Tensor&, int) override { note("broadcast"); }
  void do_all_to_all(const at::Tensor&, const at::Tensor&, const std::vector<std::int64_t>&,
                     const std::vector<std::int64_t>&) override {
    note("all-to-all");
  }
  void do_barrier() override { note("barrier"); }
  Rest do_start_send(const at::Tensor&, int) override {
    note("send");
    return [] {};
  }
  void do_receive(const at::Tensor&, int) override { note("receive"); }
};

TEST_CASE("group: tensors that a call cannot take are refused before the backend sees them") {
  Noting group(std::make_shared<peers::CallLog>());
  const auto one = at::ones({2});
  CHECK_THROWS_WITH(group.broadcast(at::Tensor(), 0, "x"), "broadcast 'x' of group dp: an undefined tensor");
  CHECK_THROWS_WITH(group.all_reduce(at::ones({2}, at::kMeta), ReduceOp::sum, "x"),
                    "all-reduce 'x' of group dp: a tensor on meta, the group is on cpu");
  CHECK_THROWS_AS(group.all_gather(at::ones({3}), one, "x"), std::logic_error);
  CHECK_THROWS_AS(group.reduce_scatter(one, at::ones({4}, at::kDouble), "x"), std::logic_error);
  CHECK_THROWS_AS(group.broadcast(one, 2, "x"), std::logic_error);
  CHECK_THROWS_AS(group.all_to_all(one, one, {1, 2}, {1, 1}, "x"), std::logic_error);
  CHECK_THROWS_AS(group.all_to_all(at::ones({2, 3}), one, {1, 1}, {1, 1}, "x"), std::logic_error);
  CHECK(group.asked.empty());
}

TEST_CASE("group: tensors without elements are no call, and of a list only the others") {
  const auto log = std::make_shared<peers::CallLog>();
  Noting group(log);
  const auto none = at::empty({0});
  group.all_reduce(none, ReduceOp::sum, "x");
  group.all_gather(none, none, "x");
  group.start_reduce_scatter(none, none, "x")->wait();
  CHECK_FALSE(log->last());
  group.all_gather(std::vector{none, at::ones({4})}, std::vector{none, at::ones({2})}, "list");
  CHECK(group.asked == std::vector<std::string>{"all-gather"});
  CHECK(log->last()->text() == "all-gather 'list' of group dp, call 1");
}

TEST_CASE("group: transfers count by sender and receiver, and name both ranks") {
  const auto log = std::make_shared<peers::CallLog>();
  Noting group(log);
  group.send(at::ones({2}), 1, "x");
  group.start_send(at::ones({2}), 1, "y")->wait();
  CHECK(log->last()->text() == "transfer 'y' of group dp (0 to 1), call 2");
  group.receive(at::ones({2}), 1, "z");
  CHECK(log->last()->text() == "transfer 'z' of group dp (1 to 0), call 1");
  CHECK(group.asked == std::vector<std::string>{"send", "send", "receive"});
  const auto started = group.start_receive(at::ones({2}), 1, "ahead");
  CHECK(log->last()->text() == "transfer 'ahead' of group dp (1 to 0), call 2");
  CHECK(group.asked.size() == 3);  // this group receives when it is waited for
  CHECK_FALSE(started->has_ended());
  started->wait();
  CHECK(group.asked.back() == "receive");
  CHECK(group.start_receive(at::empty({0}), 1, "nothing")->has_ended());
  CHECK(peers::transfer_ends(log->last()->group) == std::vector<int>{1, 0});
  CHECK_FALSE(peers::transfer_ends("dp of 0"));
  CHECK_THROWS_AS(group.send(at::ones({2}), 0, "to itself"), std::logic_error);
}

TEST_CASE("group: what was started is asked for in its wait, which may be called once") {
  const auto log = std::make_shared<peers::CallLog>();
  Noting group(log);
  const auto pending = group.start_all_reduce(at::ones({2}), ReduceOp::sum, "loss");
  CHECK(group.asked.empty());
  CHECK(log->in_flight().empty());
  pending->wait();
  CHECK(group.asked.size() == 1);
  CHECK_THROWS_AS(pending->wait(), std::logic_error);
}

TEST_CASE("group: a call that fails says which one it was, and stays in flight for reports") {
  const auto log = std::make_shared<peers::CallLog>();
  Noting group(log);
  group.barrier("start");
  group.fails = true;
  try {
    group.all_reduce(at::ones({2}), ReduceOp::sum, "loss");
    FAIL("the network is cut");
  } catch (const Error& error) {
    REQUIRE(error.context().size() == 1);
    CHECK_THAT(error.context().front(), Contains("in all-reduce 'loss' of group dp, call 2, for "));
  }
  REQUIRE(log->in_flight().size() == 1);
  CHECK(log->in_flight().front().label == "loss");
}

}  // namespace

}  // namespace group_test
