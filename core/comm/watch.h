#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

class CallLog;
class FailureState;
struct Failure;
class Heartbeat;

struct WatchSetup {
  int rank = 0;
  std::string store_owner;
  std::chrono::milliseconds silence{};
  std::chrono::milliseconds patience{};
  std::function<void(const std::string& first_error)> on_stuck;
};

/// The thread that acts on a failure. It never communicates, so nothing can block it: it logs the first error (in full
/// on one rank, else its first line) and what this rank was doing, and calls on_stuck if the main thread does not
/// react. It also detects that the store itself stopped answering.
class Watch {
 public:
  Watch(WatchSetup setup, std::shared_ptr<const Heartbeat> heartbeat, std::shared_ptr<CallLog> log,
        std::shared_ptr<FailureState> failure);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void run();
  void announce(const Failure& failure);
  bool stuck(std::chrono::steady_clock::duration since_failure) const;

  const WatchSetup setup_;
  std::shared_ptr<const Heartbeat> heartbeat_;
  std::shared_ptr<CallLog> log_;
  std::shared_ptr<FailureState> failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace comm
CAPSTAN_END_NAMESPACE
