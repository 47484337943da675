#pragma once
#include <capstan/base/export.h>
#include <capstan/launch/world.h>

#include <chrono>
#include <functional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

using launch::Rendezvous;
using launch::World;

class ForeignStores;

/// Everything that a rank needs to know to meet the others and to watch them.
struct Options {
  World world;
  Rendezvous rendezvous;
  std::string interface;           ///< network interface for rendezvous and Gloo; empty: what reaches the rendezvous
  std::vector<std::string> hosts;  ///< where the launcher put each rank, for messages; may be empty
  int failure_note = -1;           ///< FailureNote::fd() of the process that started this rank; -1: none
  const ForeignStores* torchrun = nullptr;  ///< how its agent's store is reached, if the rendezvous is_torch

  std::chrono::milliseconds connect_timeout = std::chrono::minutes(5);
  std::chrono::milliseconds news = std::chrono::seconds(10);     ///< how often rank 0 says who is missing
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  ///< for one collective; then a hang report
  std::chrono::milliseconds silence = std::chrono::seconds(10);  ///< a peer without a heartbeat for so long is dead
  std::chrono::milliseconds patience = std::chrono::seconds(5);  ///< time for the main thread to notice a failure
  /// Called from the watch thread when the run has failed and the main thread is stuck where no exception reaches
  /// it. The executable ends the process; a library must not.
  std::function<void(const std::string& first_error)> on_stuck;
};

}  // namespace peers
CAPSTAN_END_NAMESPACE
