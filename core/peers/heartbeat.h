#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "peers/options.h"
#include "peers/store.h"

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

class Backends;
class CallLog;
class FailureState;
class GroupMembers;
class Patience;

struct HeartbeatSetup {
  Options options;
  std::vector<std::string> hosts;  ///< by rank
  bool hosts_store = false;        ///< this rank runs the store, so it must end last
  std::string store_owner;         ///< "rank 0 on node1", for the message that it is gone
  std::shared_ptr<const GroupMembers> members;
  std::shared_ptr<Backends> backends;
};

/// The thread that talks to the store: sends a heartbeat each second, publishes and receives the first failure,
/// detects peers without a heartbeat (rank 0 watches all, rank 1 watches rank 0, all ranks watch all others after a
/// connection broke) and asks all ranks where they are when a collective does not end,
/// unless it waits for a disk (Patience).
class Heartbeat {
 public:
  virtual ~Heartbeat() = default;

  /// Says goodbye, or publishes the failure, and ends the thread. The rank that runs the store waits for the others.
  virtual void close() = 0;
  virtual bool closing() const = 0;
  /// A connection broke: returns when the run's failure is known; silent peers get 3 s. If no rank turns out to be at
  /// fault, this rank fails with `reason` and where all ranks were.
  virtual void find_failure(const std::string& reason) = 0;
  virtual Patience& patience() = 0;
  /// Time since the store last answered.
  virtual std::chrono::milliseconds unanswered() const = 0;
};

/// Starts it. It closes with the last of those who have it, if close() was not called.
std::shared_ptr<Heartbeat> start_heartbeat(HeartbeatSetup setup, std::unique_ptr<Store> store,
                                           std::shared_ptr<CallLog> log, std::shared_ptr<FailureState> failure);

}  // namespace peers
CAPSTAN_END_NAMESPACE
