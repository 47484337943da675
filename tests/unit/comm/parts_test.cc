#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan_catch.h>
#include "comm/connect.h"

#include <ATen/ATen.h>

#include <thread>

#include "comm/call_log.h"
#include "comm/failure.h"
#include "comm/hang_report.h"
#include "comm/network.h"
#include "comm/ordered_sum.h"
#include "comm/store.h"
#include "support/folder.h"

namespace {
using namespace capstan;  // NOLINT(google-build-using-namespace)
using namespace capstan::comm;
using std::chrono::milliseconds;
using store::Store;  // NOLINT(google-build-using-namespace)

const c10::Device cpu(c10::kCPU);

TEST_CASE("call log: calls in flight, oldest first") {
  CallLog log;
  CHECK(log.in_flight().empty());
  CHECK_FALSE(log.last());
  const auto first = log.begin("all-reduce", "dp", "grad norm", 41);
  const auto second = log.begin("broadcast", "tp", "", 3);
  REQUIRE(log.in_flight().size() == 2);
  CHECK(log.in_flight()[0].text() == "all-reduce 'grad norm' of group dp, call 41");
  CHECK(log.in_flight()[1].text() == "broadcast of group tp, call 3");
  log.end(first, cpu);
  REQUIRE(log.in_flight().size() == 1);
  CHECK(log.in_flight()[0].group == "tp");
  log.end(second, cpu);
  CHECK(log.in_flight().empty());
  CHECK(log.last()->operation == "broadcast");
}

TEST_CASE("call log: a ring that is full forgets the oldest and confuses no reader") {
  CallLog log(nullptr, 2);
  const auto lost = log.begin("all-reduce", "dp", "a", 1);
  (void)log.begin("all-reduce", "dp", "b", 2);
  (void)log.begin("all-reduce", "dp", "c", 3);
  log.end(lost, cpu);  // its slot is c's by now
  const auto calls = log.in_flight();
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].label == "b");
  CHECK(calls[1].label == "c");
}

TEST_CASE("call log: nothing begins after a failure") {
  const auto failure = std::make_shared<FailureState>(0);
  CallLog log(failure);
  failure->fail({2, "node3", "no space left"});
  CHECK_FALSE(failure->seen());
  CHECK_THROWS_AS(log.begin("barrier", "dp", "x", 1), PeerFailed);
  CHECK(failure->seen());
}

TEST_CASE("failure: the first one counts, and travels as text") {
  FailureState state(1);
  CHECK(state.fail({2, "node3", "line 1\nline 2"}));
  CHECK_FALSE(state.fail({1, "node1", "later"}));
  const Failure copy = Failure::parse(state.failure()->serialized());
  CHECK(copy.rank == 2);
  CHECK(copy.host == "node3");
  CHECK(copy.text() == "rank 2 on node3 failed: line 1\nline 2");
  CHECK_THROWS_WITH(state.throw_if_failed(), "rank 2 on node3 failed: line 1\n    line 2");
  FailureState own(1);
  own.fail({1, "node1", "my own"});
  try {
    own.throw_if_failed();
    FAIL("it failed");
  } catch (const PeerFailed&) {
    FAIL("no peer failed");
  } catch (const Error& error) {
    CHECK(std::string(error.what()) == "my own");
  }
}

TEST_CASE("failure: a rank that throws what all throw shares the first one's words") {
  FailureState state(0);
  CHECK_FALSE(state.shared());
  CHECK(state.fail({1, "node1", "the folder cannot be made"}));
  CHECK_FALSE(state.shared());
  CHECK_FALSE(state.fail({0, "node0", "the folder cannot be made"}));
  CHECK(state.shared());
  FailureState another(0);
  another.fail({1, "node1", "the disk is full"});
  another.fail({0, "node0", "a peer has closed its connection"});
  CHECK_FALSE(another.shared());
}

TEST_CASE("failure: one rank says it whole, the others its first line") {
  const Failure hang{-1, {}, "all-gather has not ended for 6 s:\n    it waits for rank 1"};
  CHECK(hang.teller() == 0);
  CHECK(hang.brief() == "all-gather has not ended for 6 s (rank 0 says more)");
  const Failure first{0, "n1", "the disk is full\n    fix: free some space"};
  CHECK(first.teller() == 1);
  CHECK(first.brief() == "rank 0 on n1 failed: the disk is full (rank 1 says more)");
  const Failure silent{3, "n2", "it has not been heard of for 10 s"};
  CHECK(silent.brief() == silent.text());
}

TEST_CASE("failure: a wait ends with it") {
  FailureState state(0);
  std::thread other([&] { state.fail({1, "a", "b"}); });
  state.wait([] { return false; }, std::chrono::hours(1));
  other.join();
  CHECK(state.failure().has_value());
}

TEST_CASE("failure note: what a process that starts ranks leaves where they look") {
  const FailureNote note;
  CHECK_FALSE(read_failure_note(-1).has_value());
  CHECK_FALSE(read_failure_note(note.fd()).has_value());
  note.write(3, "n2", "it was killed");
  const auto told = read_failure_note(note.fd());
  REQUIRE(told.has_value());
  CHECK(told->text() == "rank 3 on n2 failed: it was killed");
  CHECK(told->rank == 3);
  note.write(4, "n2", std::string(10000, 'x'));
  CHECK(read_failure_note(note.fd())->message == std::string(failure_note_bytes - std::string("4\nn2\n").size(), 'x'));
}

TEST_CASE("hang report: who is there, who is not, and where those are") {
  const CollectiveCall waiting{"all-reduce", "dp", "grad norm", 42,
                               std::chrono::steady_clock::now() - std::chrono::seconds(600)};
  CallLog there;
  (void)there.begin("all-reduce", "dp", "grad norm", 42);
  CallLog elsewhere;
  (void)elsewhere.begin("broadcast", "tp", "weights", 7);
  CallLog after;
  after.end(after.begin("all-reduce", "dp", "grad norm", 41), cpu);
  CallLog nowhere;
  CallLog ahead;  // has left the call already: it did arrive
  ahead.end(ahead.begin("all-reduce", "dp", "grad norm", 42), cpu);
  const std::string text = hang_report(waiting, {{0, "a", true, describe_calls(there)},
                                                 {1, "a", true, describe_calls(there)},
                                                 {2, "b", true, describe_calls(elsewhere)},
                                                 {3, "b", false, describe_calls(elsewhere)},
                                                 {4, "c", true, describe_calls(after)},
                                                 {5, "c", false, describe_calls(after)},
                                                 {6, "d", true, describe_calls(nowhere)},
                                                 {8, "e", true, ""},
                                                 {9, "f", true, describe_calls(ahead)}});
  CHECK(text ==
        "all-reduce 'grad norm' of group dp, call 42, has not ended for 600 s:\n"
        "    ranks 0, 1, 9 wait in it\n"
        "    ranks 2, 3 on b are in broadcast 'weights' of group tp, call 7\n"
        "    rank 4 on c is in no collective; its last was all-reduce 'grad norm' of group dp, call 41\n"
        "    rank 6 on d is in no collective, and never was\n"
        "    rank 8 on e does not answer\n"
        "    it waits for ranks 2, 4, 6, 8");
  CHECK_THAT(hang_report(waiting, {{0, "a", true, describe_calls(there)}}),
             Contains("    rank 0 waits in it\n    all of its ranks are in it: the network or a device does not finish "
                      "it (capstan preflight measures them)"));
}

TEST_CASE("hang report: ranks that took different paths") {
  const CollectiveCall waiting{"all-gather", "shard", "blocks.13", 42, std::chrono::steady_clock::now()};
  CallLog gathers;
  (void)gathers.begin("all-gather", "shard", "blocks.13", 42);
  CallLog scatters;
  (void)scatters.begin("reduce-scatter", "shard", "blocks.12", 42);
  (void)scatters.begin("all-gather", "shard", "blocks.11", 43);
  (void)scatters.begin("all-gather", "shard", "blocks.10", 44);
  std::vector<Position> ranks;
  for (int rank = 0; rank < 5; ++rank) ranks.push_back({rank, rank < 4 ? "a" : "b", true, describe_calls(gathers)});
  ranks.push_back({5, "b", true, describe_calls(scatters)});
  // A rank that is in a later call of the group has been in this one, unless that was another one there.
  CHECK(hang_report(waiting, ranks) ==
        "all-gather 'blocks.13' of group shard, call 42, has not ended for 0 s:\n"
        "    ranks 0-4 wait in it\n"
        "    rank 5 on b is in reduce-scatter 'blocks.12' of group shard, call 42 and all-gather 'blocks.11' of group "
        "shard, call 43\n"
        "    the ranks call different collectives: each of a group must call the same ones, in the same order");
}

TEST_CASE("ranks in words") {
  CHECK(ranks_text({5}) == "rank 5");
  CHECK(ranks_text({0, 1}) == "ranks 0, 1");
  CHECK(ranks_text({0, 1, 2, 3, 7, 8, 10, 11, 12}) == "ranks 0-3, 7, 8, 10-12");
}

TEST_CASE("ordered sum: 16-bit floats are summed in float32 and rounded once") {
  const at::Tensor big = at::full({1}, 256.0, at::kBFloat16);
  const at::Tensor one = at::full({1}, 1.0, at::kBFloat16);  // 256 + 1 is 256 in bf16, however often
  const at::Tensor out = at::empty({1}, at::kBFloat16);
  reduce_in_rank_order(out, {big, one, one}, ReduceOp::sum);
  CHECK(out.item<float>() == 258.0F);
}

TEST_CASE("ordered sum: out may be the first part") {
  const at::Tensor first = at::full({2}, 1.0);
  reduce_in_rank_order(first, {first, at::full({2}, 2.0)}, ReduceOp::sum);
  CHECK(first.equal(at::full({2}, 3.0)));
}

TEST_CASE("network: addresses of this host") {
  CHECK(resolve("localhost").front() == "127.0.0.1");  // IPv4 first, whatever the system prefers
  CHECK(resolve("127.0.0.1") == std::vector<std::string>{"127.0.0.1"});
  CHECK(resolve("::1") == std::vector<std::string>{"::1"});
  CHECK(address_towards("127.0.0.1") == "127.0.0.1");
  CHECK(address_of_interface("lo") == "127.0.0.1");
  CHECK(address_towards("::1") == "::1");
  CHECK(address_towards("nonsense").empty());
  CHECK_FALSE(own_addresses().empty());
  CHECK_THROWS_WITH(resolve("no-such-host.invalid"),
                    Contains("the rendezvous host 'no-such-host.invalid' is unknown") && Contains("check MASTER_ADDR"));
  CHECK_THROWS_WITH(address_of_interface("ib7"),
                    Contains("there is no network interface 'ib7' with an address") && Contains("this host has lo"));
}

ConnectOptions two_ranks() {
  ConnectOptions options;
  options.world.size = options.world.local_size = 2;
  options.world.host = "here";
  options.connect_timeout = milliseconds(300);
  return options;
}

TEST_CASE("connect: a port that is taken is named") {
  const auto other = Store::serve("127.0.0.1", 0, "other");
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
  { free_port = Store::serve("127.0.0.1", 0, "gone")->port(); }
  SECTION("its file is an old one") {
    const test::Folder folder;
    const auto file = folder.write("rendezvous", cat("127.0.0.1:", free_port, "\n"));
    options.rendezvous.file = file;
    CHECK_THROWS_WITH(connect(options),
                      Contains(cat("no process answers at 127.0.0.1:", free_port, ", which ", file, " names")));
  }
  SECTION("nothing listens at MASTER_ADDR") {
    options.rendezvous.host = "localhost";
    options.rendezvous.port = free_port;
    CHECK_THROWS_WITH(connect(options), Contains(cat("rank 1 cannot reach the rendezvous at localhost:", free_port)));
  }
}

TEST_CASE("connect: a single rank opens nothing and copies") {
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

}  // namespace
