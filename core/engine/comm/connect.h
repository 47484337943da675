#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>
#include <capstan/launch/world.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {
class Store;
}
namespace comm {

class NcclFactory;

using launch::Rendezvous;

/// Everything that connecting needs to know.
struct ConnectOptions {
  World world;
  Rendezvous rendezvous;
  std::string interface;              ///< network interface for rendezvous and Gloo; empty: what reaches the rendezvous
  std::vector<std::string> hosts;     ///< where the launcher put each rank, for messages; may be empty
  bool deterministic = false;         ///< CPU all-reduce in rank order; reduce-scatter on CPU always is
  int failure_note = -1;              ///< FailureNote::fd() of the process that started this rank; -1: none
  const NcclFactory* nccl = nullptr;  ///< from ranks::Device; without it only CPU groups can be made

  std::chrono::milliseconds connect_timeout = std::chrono::minutes(5);
  std::chrono::milliseconds news = std::chrono::seconds(10);     ///< how often rank 0 says who is missing
  std::chrono::milliseconds timeout = std::chrono::minutes(10);  ///< for one collective; then a hang report
  std::chrono::milliseconds silence = std::chrono::seconds(10);  ///< a peer without a heartbeat for so long is dead
  std::chrono::milliseconds patience = std::chrono::seconds(5);  ///< time for the main thread to notice a failure
  /// Called from the watch thread when the run has failed and the main thread is stuck where no exception reaches
  /// it. The executable ends the process; a library must not.
  std::function<void(const std::string& first_error)> on_stuck;
};

/// Connects to the peers and returns when all are there. The process must ignore SIGPIPE, which a
/// dying peer would send it. Throws Error that names the ranks that did not come. With one
/// rank nothing is opened. The object's destruction says goodbye; rank 0's waits for the others' (the store lives
/// in it).
std::unique_ptr<Communicator> connect(const ConnectOptions& options);

/// To be called by a rank that fails before connect(): peers that are connecting, or will within half a minute, end
/// with its error instead of waiting for it. Takes up to half a minute if the rendezvous is an address
/// (MASTER_ADDR). Throws nothing; a peer that cannot be told reports the rank as missing at its time limit.
void report_early_failure(const ConnectOptions& options, const std::string& message) noexcept;

/// A file in which a process that starts ranks, but does not run their store, says that one of them died: the other
/// local ranks read it, and tell ranks on other nodes through the store.
class FailureNote {
 public:
  FailureNote();
  ~FailureNote();
  FailureNote(const FailureNote&) = delete;
  FailureNote& operator=(const FailureNote&) = delete;
  /// A file descriptor that processes inherit.
  int fd() const { return fd_; }
  void write(int rank, const std::string& host, const std::string& message) const;

 private:
  int fd_;
};

/// A store in a process that is no rank, for ranks that it starts itself, on the loopback interface. Its rendezvous has
/// the secret that they need.
class RendezvousServer {
 public:
  explicit RendezvousServer(const std::string& prefix);
  ~RendezvousServer();
  /// What the ranks need to find it, on this host.
  const Rendezvous& rendezvous() const { return where_; }
  /// Tells all ranks that one failed, unless another failure came first.
  void publish_failure(int rank, const std::string& host, const std::string& message);

 private:
  Rendezvous where_;
  std::unique_ptr<Store> store_;
};

}  // namespace comm
CAPSTAN_END_NAMESPACE
