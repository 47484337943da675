#include "peers/call_log.h"

#include <capstan/peers/peer_failed.h>
#include <capstan_catch.h>

#include "peers/failure.h"

namespace call_log_test {

namespace {
using namespace capstan;         // NOLINT(google-build-using-namespace)
using namespace capstan::peers;  // NOLINT(google-build-using-namespace)

TEST_CASE("call log: calls in flight, oldest first") {
  CallLog log;
  CHECK(log.in_flight().empty());
  CHECK_FALSE(log.last());
  const auto first = log.begin("all-reduce", "dp", "grad norm", 41);
  const auto second = log.begin("broadcast", "tp", "", 3);
  REQUIRE(log.in_flight().size() == 2);
  CHECK(log.in_flight()[0].text() == "all-reduce 'grad norm' of group dp, call 41");
  CHECK(log.in_flight()[1].text() == "broadcast of group tp, call 3");
  log.end(first);
  REQUIRE(log.in_flight().size() == 1);
  CHECK(log.in_flight()[0].group == "tp");
  log.end(second);
  CHECK(log.in_flight().empty());
  CHECK(log.last()->operation == "broadcast");
}

TEST_CASE("call log: a ring that is full forgets the oldest and confuses nobody") {
  CallLog log(nullptr, 2);
  const auto lost = log.begin("all-reduce", "dp", "a", 1);
  (void)log.begin("all-reduce", "dp", "b", 2);
  (void)log.begin("all-reduce", "dp", "c", 3);
  log.end(lost);  // its slot is c's by now
  const auto calls = log.in_flight();
  REQUIRE(calls.size() == 2);
  CHECK(calls[0].label == "b");
  CHECK(calls[1].label == "c");
}

// Ends when it is told to.
class Told final : public QueuedWork {
 public:
  explicit Told(const bool& ended) : ended_(ended) {}
  bool has_ended() const override { return ended_; }

 private:
  const bool& ended_;
};

TEST_CASE("call log: a call that has queued work is in flight until that has ended, and runs in no thread") {
  CallLog log;
  bool ended = false;
  const auto ticket = log.begin("all-gather", "shard", "blocks.3", 1);
  CHECK(log.is_running());
  log.end(ticket, std::make_unique<Told>(ended));
  CHECK_FALSE(log.is_running());
  CHECK(log.in_flight().size() == 1);
  ended = true;
  CHECK(log.in_flight().empty());
}

TEST_CASE("call log: what a call had queued goes to the one that takes its place") {
  CallLog log(nullptr, 1);
  bool ended = true;
  const auto first = log.begin("all-gather", "shard", "blocks.3", 1);
  CHECK(log.used(first) == nullptr);
  auto work = std::make_unique<Told>(ended);
  const auto* made = work.get();
  log.end(first, std::move(work));
  const auto second = log.begin("all-gather", "shard", "blocks.4", 2);
  CHECK(log.used(first) == nullptr);  // its place is the second's
  auto again = log.used(second);
  CHECK(again.get() == made);
  log.end(second, std::move(again));
  CHECK(log.in_flight().empty());
}

TEST_CASE("call log: nothing begins after a failure") {
  const auto failure = std::make_shared<FailureState>(0);
  CallLog log(failure);
  failure->fail({2, "node3", "no space left"});
  CHECK_FALSE(failure->seen());
  CHECK_THROWS_AS(log.begin("barrier", "dp", "x", 1), comm::PeerFailed);
  CHECK(failure->seen());
}

}  // namespace

}  // namespace call_log_test
