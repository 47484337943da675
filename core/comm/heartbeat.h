#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace store {
class Store;
}
namespace comm {

class CallLog;
class FailureState;

struct HeartbeatSetup {
  World world;
  std::vector<std::string> hosts;  ///< by rank
  bool hosts_store = false;        ///< this rank runs the store, so it must end last
  std::string store_owner;         ///< "rank 0 on node1", for the message that it is gone
  std::chrono::milliseconds silence{};
  std::chrono::milliseconds timeout{};
  std::function<std::vector<int>(const std::string& group)> members;
  std::function<void()> abort_backends;
  int failure_note = -1;  ///< see ConnectOptions
};

/// The thread that talks to the store: sends a heartbeat each second, publishes and receives the first failure,
/// detects peers without a heartbeat (rank 0 watches all, rank 1 watches rank 0, all ranks watch all others after a
/// connection broke) and asks all ranks where they are when a collective does not end,
/// unless it waits for a disk (Patience).
class Heartbeat {
 public:
  Heartbeat(HeartbeatSetup setup, std::unique_ptr<store::Store> store, std::shared_ptr<CallLog> log,
            std::shared_ptr<FailureState> failure);
  /// Closes if close() was not called.
  ~Heartbeat();
  Heartbeat(const Heartbeat&) = delete;
  Heartbeat& operator=(const Heartbeat&) = delete;

  /// Says goodbye, or publishes the failure, and ends the thread. The rank that runs the store waits for the others.
  void close();
  bool closing() const;
  /// A connection broke: returns when the run's failure is known; silent peers get 3 s. If no rank turns out to be at
  /// fault, this rank fails with `reason` and where all ranks were.
  void find_failure(const std::string& reason);
  /// Patience's.
  std::optional<std::string> news();
  bool excuses() const;
  /// Time since the store last answered.
  std::chrono::milliseconds unanswered() const;

  class Loop;

 private:
  std::shared_ptr<Loop> loop_;  // shared with the thread, which is detached when the store never answers
  std::thread thread_;
};

}  // namespace comm
CAPSTAN_END_NAMESPACE
