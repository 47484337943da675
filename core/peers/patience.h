#pragma once
#include <capstan/base/export.h>

#include <atomic>
#include <chrono>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "peers/call_log.h"
#include "peers/store.h"

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// How long a rank waits in a call before that is a hang: the time limit, and for as long as some rank is at a disk.
/// A rank's heartbeat says what it reads or writes, if it does; rank 0 passes on whose do, so that the others read one
/// short text and not all heartbeats.
class Patience {
 public:
  using Clock = std::chrono::steady_clock;

  Patience(int rank, std::vector<std::string> hosts, std::chrono::milliseconds timeout)
      : rank_(rank), hosts_(std::move(hosts)), timeout_(timeout) {}

  /// The value of this rank's n-th heartbeat: "17", or "17 writing /runs/x/metrics.jsonl".
  static std::string heartbeat(std::int64_t number, const CallLog& log);
  /// Called by rank 0 at each heartbeat with all ranks' values, by rank.
  void pass_on(Store& store, const std::vector<std::string>& heartbeats);
  /// Called at each heartbeat: reads whom rank 0 has named, if this rank waits. `calls`: those in flight, oldest first.
  void look(Store& store, const std::vector<CollectiveCall>& calls, Clock::time_point now);
  /// Has this call taken so long that it counts as a hang?
  bool ends(const CollectiveCall& call, Clock::time_point now) const;

  /// A message for the log, if there is one: who is at a disk while others wait. Returned once. From any thread: the
  /// heartbeat's own must not log it, since the log may be on that disk.
  std::optional<std::string> news();
  /// Whether some rank was at a disk within the last time limit. From any thread.
  bool excuses() const { return Clock::now().time_since_epoch() - excused_at_.load() < timeout_; }

 private:
  void tell(const std::string& named, std::int64_t waited_s);

  const int rank_;
  const std::vector<std::string> hosts_;
  const std::chrono::milliseconds timeout_;
  std::string passed_on_;
  Clock::time_point call_{};   // the start of the call that excused_ belongs to
  Clock::duration excused_{};  // how long some rank was at a disk during it
  Clock::time_point looked_{};
  Clock::time_point told_{};
  std::atomic<Clock::duration> excused_at_{Clock::duration{}};
  std::mutex mutex_;
  std::optional<std::string> news_;
};

}  // namespace peers
CAPSTAN_END_NAMESPACE
