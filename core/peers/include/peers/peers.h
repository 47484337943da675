#pragma once
#include <capstan/base/export.h>

#include <memory>
#include <string>
#include <vector>

#include "peers/call_log.h"
#include "peers/failure.h"
#include "peers/group_members.h"
#include "peers/options.h"
#include "peers/store.h"

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

struct Joined;
class Heartbeat;
class Watch;

/// What carries out a rank's collectives, as far as it may hang after a failure.
class Backends {
 public:
  virtual ~Backends() = default;
  /// Called by the heartbeat's thread when the run has failed: calls that hang end, and none is possible afterwards.
  virtual void abort() = 0;
};

/// The other ranks of a run of several, as one of them knows them: it has met them all, sends them its heartbeat, and
/// watches theirs and how long its own collectives take. Calls that wait throw once the run has failed.
class Peers {
 public:
  /// Meets the others and returns when all are there. The process must ignore SIGPIPE, which a dying peer would send
  /// it. Throws Error that names the ranks that did not come.
  static std::shared_ptr<Peers> meet(const Options& options, std::shared_ptr<Backends> backends);
  Peers(const Options& options, Joined joined, std::shared_ptr<Backends> backends);
  /// Says goodbye, or that an exception ended this rank; rank 0 waits for the others if the store lives in it.
  ~Peers();
  Peers(const Peers&) = delete;
  Peers& operator=(const Peers&) = delete;

  /// This rank's IP address, which its peers reach.
  const std::string& address() const;
  /// The store's, as the rank that runs it knows it: "10.0.0.7:43121".
  const std::string& rendezvous() const;
  const Store& store() const;
  /// What this rank's collectives are noted in.
  const std::shared_ptr<CallLog>& calls() const { return calls_; }
  const std::shared_ptr<FailureState>& failure() const { return failure_; }

  /// Every rank's text, by rank. A collective over the world.
  std::vector<std::string> exchange(const std::string& mine);
  /// Waits until all members of a new group are here with the same list, so that its backend is only made among ranks
  /// that are alive. Throws if the name is used already.
  void assemble(const std::string& group, const std::vector<int>& ranks);

  /// Publishes the first error to all ranks. Safe from any thread.
  void report_failure(const std::string& message);
  /// A connection to a peer broke: returns when the run's failure is known.
  void find_failure(const std::string& reason);

 private:
  void await(const std::vector<std::string>& keys, const std::string& what);

  const Options options_;
  const std::unique_ptr<const Joined> joined_;
  const std::shared_ptr<FailureState> failure_;
  const std::shared_ptr<CallLog> calls_;
  const std::shared_ptr<GroupMembers> members_ = std::make_shared<GroupMembers>();
  std::shared_ptr<Heartbeat> heartbeat_;
  std::unique_ptr<Watch> watch_;
  int exchanges_ = 0;
  const int exceptions_before_;
};

/// To be called by a rank that fails before it has met the others: peers that are connecting, or will within half a
/// minute, end with its error instead of waiting for it. Takes up to half a minute if the rendezvous is an address
/// (MASTER_ADDR). Throws nothing; a peer that cannot be told reports the rank as missing at its time limit.
void report_early_failure(const Options& options, const std::string& message) noexcept;

}  // namespace peers
CAPSTAN_END_NAMESPACE
