#pragma once
#include <capstan/base/export.h>

#include <memory>
#include <string>

#include "peers/options.h"
#include "peers/store.h"

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// A store in a process that is no rank, for ranks that it starts itself, on the loopback interface. Its rendezvous has
/// the secret that they need.
class RendezvousServer {
 public:
  explicit RendezvousServer(const std::string& prefix);
  /// What the ranks need to find it, on this host.
  const Rendezvous& rendezvous() const { return where_; }
  /// Tells all ranks that one failed, unless another failure came first.
  void publish_failure(int rank, const std::string& host, const std::string& message);

 private:
  Rendezvous where_;
  std::unique_ptr<Store> store_;
};

}  // namespace peers
CAPSTAN_END_NAMESPACE
