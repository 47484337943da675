#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>
#include <capstan/launch/world.h>
#include <capstan/monitor/tracer.h>
#include <capstan/peers/peer_failed.h>

#include <c10/core/Device.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

using launch::World;

/// Connects a rank to its peers: makes groups, and tells the others when this rank fails.
class Communicator {
 public:
  virtual ~Communicator();
  virtual const World& world() const = 0;
  /// A new group of these world ranks (this one among them) for tensors on `device`. All members call it, with
  /// the same name, in the same order; a name is used once.
  virtual std::shared_ptr<Group> group(const std::string& name, const std::vector<int>& ranks, c10::Device device) = 0;
  /// "gloo", "nccl", "in-process" or "none" (a single rank).
  virtual std::string backend(c10::Device device) const = 0;
  /// Every rank's text, by rank. A collective over the world.
  virtual std::vector<std::string> exchange(const std::string& mine) = 0;
  /// Publishes the first error to all ranks, whose waiting collectives then throw. Safe from any thread.
  virtual void report_failure(const std::string& message) = 0;
  /// Collectives of all groups are spans of this tracer from now on; null: nothing is traced.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): who overrides it keeps the tracer
  virtual void trace(std::shared_ptr<monitor::Tracer>) {}
  /// The rendezvous address: "10.0.0.7:43121"; empty for a single rank and for in-process ranks.
  virtual std::string rendezvous() const { return {}; }
};

/// Runs `body` as `size` ranks, each a thread of this process; it is in capstan::testing. CPU only, sums in rank order.
/// When one throws, the others' waiting collectives throw PeerFailed; the first exception is rethrown here.
void run_in_process(int size, const std::function<void(Communicator&)>& body);

}  // namespace comm
CAPSTAN_END_NAMESPACE
