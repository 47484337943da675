#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace gloo::transport {
class Device;
}

CAPSTAN_BEGIN_NAMESPACE
namespace comm {
class Store;
}
namespace comm {

class FailureState;

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
/// failed. Connections that break without a known failure are reported through `on_lost`, which returns when the
/// failure is known.
std::shared_ptr<Group> make_gloo_group(const GlooOptions& options, const Store& store, std::shared_ptr<CallLog> log,
                                       std::shared_ptr<FailureState> failure,
                                       std::function<void(const std::string& reason)> on_lost);

}  // namespace comm
CAPSTAN_END_NAMESPACE
