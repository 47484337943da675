// Ranks that are threads of this process: each has its own connections. What ranks that are processes do is tested with
// their communicators, in tests/unit/comm.
#include "peers/peers.h"

#include <capstan/base/error.h>
#include <capstan/peers/peer_failed.h>
#include <capstan_catch.h>

#include <atomic>
#include <functional>
#include <future>
#include <thread>

#include "support/folder.h"

namespace peers_test {

using namespace capstan;
using namespace capstan::peers;
using namespace std::chrono_literals;

namespace {

struct Aborted final : Backends {
  void abort() override { aborted = true; }
  std::atomic<bool> aborted{false};
};

using Work = std::function<std::string(Peers&, const Aborted&)>;

std::string as_rank(int rank, const std::string& file, const Work& work) {
  Options options;
  options.world.rank = options.world.local_rank = rank;
  options.world.size = options.world.local_size = 2;
  options.world.host = "here";
  options.rendezvous.file = file;
  options.connect_timeout = options.timeout = 30s;
  const auto backends = std::make_shared<Aborted>();
  try {
    return work(*Peers::meet(options, backends), *backends);
  } catch (const std::exception& error) {
    return error.what();
  }
}

/// What the work of two ranks returns or throws.
std::vector<std::string> two_ranks(const Work& first, const Work& second) {
  const test::Folder folder;
  const auto file = folder / "rendezvous";
  auto other = std::async(std::launch::async, [&] { return as_rank(1, file, second); });
  auto mine = as_rank(0, file, first);
  return {mine, other.get()};
}

}  // namespace

TEST_CASE("peers: ranks that have met tell each other what they say, round by round") {
  const Work work = [](Peers& peers, const Aborted&) {
    peers.assemble("both", {0, 1});
    const auto first = peers.exchange(peers.address());
    return first[0] + first[1] + peers.exchange("!")[0];
  };
  CHECK(two_ranks(work, work) == std::vector<std::string>(2, "127.0.0.1127.0.0.1!"));
}

TEST_CASE("peers: a group's name is used once, and its members agree about it") {
  const auto makes = [](const std::vector<int>& ranks) {
    return [ranks](Peers& peers, const Aborted&) -> std::string {
      peers.assemble("alone", {0});
      peers.assemble("x", ranks);
      return "";
    };
  };
  for (const auto& said : two_ranks(makes({0, 1}), makes({1, 0})))
    CHECK(said == "ranks disagree about the members of group x");
  const Work twice = [](Peers& peers, const Aborted&) -> std::string {
    peers.assemble("x", {0, 1});
    peers.assemble("x", {0, 1});
    return "";
  };
  CHECK(two_ranks(twice, twice) == std::vector<std::string>(2, "the group name 'x' is used twice"));
}

TEST_CASE("peers: who waits learns of the first failure, and what carries out its collectives is aborted") {
  const auto said = two_ranks(
      [](Peers& peers, const Aborted& backends) -> std::string {
        try {
          peers.exchange("I am here");
          return "nothing has failed";
        } catch (const comm::PeerFailed& failed) {
          while (!backends.aborted) std::this_thread::sleep_for(1ms);
          return failed.what();
        }
      },
      [](Peers& peers, const Aborted&) -> std::string {
        peers.report_failure("the disk is full");
        return "reported";
      });
  CHECK(said == std::vector<std::string>{"rank 1 on here failed: the disk is full", "reported"});
}

}  // namespace peers_test
