#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "peers/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

class CallLog;
class FailureState;
struct Failure;
class Heartbeat;

/// The thread that acts on a failure. It never communicates, so nothing can block it: it logs the first error (in full
/// on one rank, else its first line) and what this rank was doing, and calls on_stuck if the main thread does not
/// react. It logs the heartbeat's news too, and detects that the store itself stopped answering, unless its process is
/// only suspended.
class Watch {
 public:
  Watch(const Options& options, std::string store_owner, std::shared_ptr<Heartbeat> heartbeat,
        std::shared_ptr<CallLog> log, std::shared_ptr<FailureState> failure);
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

 private:
  void run();
  /// Fails the run if the store has been silent for too long; not while its process is suspended, which is said.
  void judge_silence(std::chrono::steady_clock::time_point now);
  void act_on(const Failure& failure, std::chrono::steady_clock::duration since);
  void announce(const Failure& failure);
  bool stuck(std::chrono::steady_clock::duration since_failure) const;

  const Options options_;
  const std::string store_owner_;
  const int launcher_;  ///< the local one, which runs the store and whose end is the ranks' end; 0: none such
  std::shared_ptr<Heartbeat> heartbeat_;
  std::shared_ptr<CallLog> log_;
  std::shared_ptr<FailureState> failure_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  // The thread's own.
  std::chrono::steady_clock::time_point awake_since_ = std::chrono::steady_clock::now();  // both this and the store
  bool suspension_told_ = false;
  bool announced_ = false;
  bool told_ = false;  // on_stuck was called
  std::thread thread_;
};

}  // namespace peers
CAPSTAN_END_NAMESPACE
