#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// The first thing that went wrong in a run.
struct Failure {
  int rank = -1;  ///< who failed; -1: no single rank (a collective that did not end)
  std::string host;
  std::string message;

  /// "rank 3 on node7 failed: message".
  std::string text() const;
  /// The message's first line, for all ranks but the teller.
  std::string brief() const;
  /// The rank that prints the full message, so that many ranks print it only once: the lowest that has not failed.
  int teller() const { return rank == 0 ? 1 : 0; }
  /// The text that goes into the store; parse() reads it.
  std::string serialized() const;
  static Failure parse(std::string_view text);
};

/// Whether this run has failed, seen from one rank. Thread-safe.
class FailureState {
 public:
  explicit FailureState(int rank) : rank_(rank) {}

  /// The first failure wins; returns whether this was it.
  bool fail(const Failure& failure);
  /// Whether this rank has reported the first failure's very words as its own: what comm::agree throws on all ranks.
  bool shared() const;
  std::optional<Failure> failure() const;
  /// Throws in the main thread: PeerFailed, or Error when this rank itself failed.
  void throw_if_failed();
  /// Whether the main thread has seen it.
  bool seen() const;
  /// Blocks until done() holds, the run has failed or `limit` has passed; wake() makes it check again.
  void wait(const std::function<bool()>& done, std::chrono::milliseconds limit);
  void wake();

 private:
  const int rank_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<Failure> failure_;
  std::optional<std::string> own_;  // this rank's own failure, the first one or a later one
  bool seen_ = false;
};

}  // namespace peers
CAPSTAN_END_NAMESPACE
