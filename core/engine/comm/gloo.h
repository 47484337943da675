#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <chrono>
#include <memory>
#include <string>
#include <vector>

namespace gloo::transport {
class Device;
}

CAPSTAN_BEGIN_NAMESPACE
namespace peers {
class Peers;
}
namespace comm {

/// One network endpoint, shared by all Gloo groups of a rank.
using GlooDevice = ::gloo::transport::Device;
/// `address`: an IP address of this host that its peers reach.
std::shared_ptr<GlooDevice> make_gloo_device(const std::string& address);

struct GlooOptions {
  std::string name;
  std::vector<int> ranks;
  int rank = 0;  ///< position in ranks
  std::shared_ptr<GlooDevice> device;
  bool deterministic = false;
  std::chrono::milliseconds timeout{};
};

/// Connects to the other members, which must all be there. Calls end when the result is ready or the run has
/// failed. A connection that breaks without a known failure is what the peers are asked about, while they are there.
std::shared_ptr<Group> make_gloo_group(const GlooOptions& options, const std::shared_ptr<peers::Peers>& peers);

}  // namespace comm
CAPSTAN_END_NAMESPACE
