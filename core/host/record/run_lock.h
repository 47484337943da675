#pragma once
#include <capstan/base/export.h>
#include <capstan/record/run_holder.h>

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>

CAPSTAN_BEGIN_NAMESPACE
namespace record {

/// A process that writes to a run's folder, as the file there names it.
struct LockHolder {
  std::string host;
  std::int64_t pid = 0;
  std::string machine;     ///< where `pid` means something: one boot of one kernel, one namespace of processes
  std::string started;     ///< when the process was, by that machine's count: numbers of processes come again
  std::string job;         ///< SLURM's number and restart, "4711.0"; empty: none
  std::int64_t since = 0;  ///< seconds of the system's clock
};

/// Lets one process at a time write to a run's folder. Whoever does leaves the file `running` there and touches it
/// every few seconds; a process that is gone holds nothing, however it went. File systems that hosts share do the same
/// with it as local ones do: no lock of theirs is asked for.
class RunLock {
 public:
  struct Patience {
    std::chrono::milliseconds beat{5000};
    /// A holder on another host that has not beaten for this long is gone.
    std::chrono::milliseconds silence{60000};
    /// The same, measured by the clock that stamps files, which need not be this host's: two beats suffice then.
    std::chrono::milliseconds long_gone{300000};
  };
  /// `me`: who would hold it; this_process() but for tests.
  RunLock(const std::filesystem::path& folder, LockHolder me, Patience patience);
  RunLock(const std::filesystem::path& folder, LockHolder me) : RunLock(folder, std::move(me), Patience()) {}
  /// Gives it back.
  ~RunLock();
  RunLock(const RunLock&) = delete;
  RunLock& operator=(const RunLock&) = delete;

  static LockHolder this_process(const std::string& host, const std::string& job);

  /// Takes it. False while only time can tell whether its holder lives: ask again soon. Throws Error that names a
  /// holder that lives.
  bool take();

 private:
  /// The file, and when it was touched last.
  struct Look {
    std::string text;
    std::chrono::nanoseconds touched{};
    bool operator==(const Look& other) const = default;
  };
  std::optional<Look> look() const;
  void refuse_dangling() const;
  bool create();
  bool take_over();
  bool is_silent(const Look& now);
  void keep_beating(const std::stop_token& ended);

  using Clock = std::chrono::steady_clock;
  const std::filesystem::path file_;
  const LockHolder me_;
  const std::string text_;
  const Patience patience_;
  std::optional<Look> seen_;  ///< another holder's file, as it was last seen
  Clock::time_point seen_at_;
  std::chrono::milliseconds waits_{};  ///< for a sign of life
  std::jthread beats_;
};

}  // namespace record
CAPSTAN_END_NAMESPACE
