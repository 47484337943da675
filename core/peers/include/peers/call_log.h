#pragma once
#include <capstan/base/export.h>
#include <capstan/monitor/tracer.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// One collective as this rank sees it.
struct CollectiveCall {
  std::string operation;    ///< "all-reduce"
  std::string group;        ///< the group's name
  std::string label;        ///< what it is for
  std::int64_t number = 0;  ///< the group's n-th call, from 1
  std::chrono::steady_clock::time_point start;

  /// Since its start, "12.3 s".
  std::string duration() const;
  /// "all-reduce 'grad norm' of group dp, call 42".
  std::string text() const;
};

/// What a transfer's call has as its group: "pp of 0 (0 to 4)", with the world ranks that send and receive.
std::string transfer_group(const std::string& group, int from, int to);
/// Returns those ranks; nothing if it is a group's own name.
std::optional<std::vector<int>> transfer_ends(const std::string& group);

class FailureState;

/// What a call has queued on a device.
class QueuedWork {
 public:
  virtual ~QueuedWork() = default;
  virtual bool has_ended() const = 0;
};

/// The collectives of this rank that have not ended, in a ring of fixed size: a host call ends when it returns, a
/// device call when what it has queued has ended. Writers and readers may be different threads.
class CallLog {
 public:
  /// With `failure`, begin() throws as soon as the run has failed.
  explicit CallLog(std::shared_ptr<FailureState> failure = nullptr, std::size_t capacity = 256);

  /// Records the start of a call; returns the ticket for end().
  std::uint64_t begin(const char* operation, const std::string& group, std::string_view label, std::int64_t number);
  /// What a call long ago, in whose place this one is, had queued: to be used again, since it costs time to make
  /// another, and to free it disturbs a device that records a graph. Null: nothing.
  std::unique_ptr<QueuedWork> used(std::uint64_t ticket);
  /// The call is over, or will be when what it has queued has ended.
  void end(std::uint64_t ticket, std::unique_ptr<QueuedWork> queued = nullptr);
  /// Calls in flight, oldest first. Asks those that were queued.
  std::vector<CollectiveCall> in_flight();
  /// Is a thread inside a call now? One that is queued on a device does not count.
  bool is_running() const;
  /// Calls are spans of this tracer from now on; with null they are spans of no tracer.
  void trace(std::shared_ptr<monitor::Tracer> tracer);
  /// The call that began last.
  std::optional<CollectiveCall> last() const;

 private:
  enum class State { free, running, queued };
  struct Slot {
    State state = State::free;
    std::uint64_t ticket = 0;
    CollectiveCall call;
    std::unique_ptr<QueuedWork> queued;
  };
  std::shared_ptr<FailureState> failure_;
  std::shared_ptr<monitor::Tracer> tracer_;
  mutable std::mutex mutex_;
  std::vector<Slot> slots_;
  std::uint64_t next_ = 0;
};

}  // namespace peers
CAPSTAN_END_NAMESPACE
