#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <atomic>
#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// Knows whether this rank was asked to end before its work is done, and how much wall time it has. Handlers of signals
/// call ask(); everything else looks at it where ranks can agree. One object a process, alive while handlers are.
class Stop {
 public:
  using Clock = std::chrono::steady_clock;

  /// Async-signal-safe: clock_gettime, which Clock::now() calls, is so too. Signals within `together` of the one before
  /// count as one, SIGINT, which a person sends, within `together_by_hand` (one that is sent to the whole process group
  /// comes directly and from the launcher): SLURM sends SIGTERM twice at a time limit, and a launcher may pass on what
  /// the rank got itself.
  void ask(int signal, Clock::time_point now = Clock::now()) noexcept;
  /// 0, 1, or 2 when a second request came after the first: then nothing that takes long is begun any more.
  int asks() const noexcept { return asks_.load(); }
  bool asked() const noexcept { return asks() > 0; }
  /// The first signal; 0: none yet.
  int signal() const noexcept { return signal_.load(); }
  /// "SIGTERM"; "" when no signal came.
  std::string reason() const;
  /// Is there so little time left that a stop which needs `needed` must begin now?
  bool time_is_up(std::chrono::duration<double> needed) const;

  /// When the scheduler ends the job; set before the run begins, on rank 0 where it is known.
  std::optional<Clock::time_point> deadline;

  static constexpr std::chrono::milliseconds together{3000};
  static constexpr std::chrono::milliseconds together_by_hand{300};

 private:
  std::atomic<int> asks_{0};
  std::atomic<int> signal_{0};
  std::atomic<Clock::rep> last_{0};            // Clock's ticks
  std::atomic<Clock::rep> last_interrupt_{0};  // the same for SIGINT
  static_assert(std::atomic<Clock::rep>::is_always_lock_free && std::atomic<int>::is_always_lock_free);
};

/// What a rank asks for at the next step boundary; what one rank asks for counts for all.
struct Requests {
  bool stop = false;        ///< a signal came
  bool hurry = false;       ///< a second one came
  bool time_is_up = false;  ///< what is left of the job's time is needed to end in good order
  bool save = false;        ///< a checkpoint is due by the clock
};

/// Ends work other than training steps when the ranks have agreed to stop. Nothing went wrong.
class Stopped : public std::exception {
 public:
  const char* what() const noexcept override { return "stopped as asked"; }
};

/// Where ranks agree to stop between the parts of anything but training steps, whose sums tell it anyway.
class StopAgreement {
 public:
  /// `group`: all ranks, in host memory. `is_time`: whether the job's time is up on this rank; none: it is not looked
  /// at.
  StopAgreement(std::shared_ptr<comm::Group> group, const Stop& stop, std::function<bool()> is_time = {})
      : group_(std::move(group)), stop_(stop), is_time_(std::move(is_time)) {}
  /// Throws Stopped on all ranks when one of them was asked to stop, or its time is up. A collective.
  void check() const;

 private:
  std::shared_ptr<comm::Group> group_;
  const Stop& stop_;
  std::function<bool()> is_time_;
};

}  // namespace step
CAPSTAN_END_NAMESPACE
