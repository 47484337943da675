#include "peers/failure.h"

#include <capstan/base/error.h>
#include <capstan/peers/peer_failed.h>
#include <capstan_catch.h>

#include <thread>

#include "peers/failure_note.h"

namespace failure_test {

namespace {
using namespace capstan;         // NOLINT(google-build-using-namespace)
using namespace capstan::peers;  // NOLINT(google-build-using-namespace)

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
  } catch (const comm::PeerFailed&) {
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

}  // namespace

}  // namespace failure_test
