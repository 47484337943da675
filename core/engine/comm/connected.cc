// The communicator of ranks that are processes.
#include <capstan/base/error.h>
#include "comm/connect.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "comm/gloo.h"
#include "comm/nccl.h"
#include "comm/planned_group.h"
#include "comm/torchrun_store.h"
#include "peers/peers.h"

namespace capstan::comm {
namespace {

/// A world of a single rank.
class Alone final : public Communicator {
 public:
  explicit Alone(World world) : world_(std::move(world)) {}
  const World& world() const override { return world_; }
  std::shared_ptr<Group> group(const std::string& name, const std::vector<int>& ranks, c10::Device device) override {
    CAPSTAN_ASSERT(ranks == std::vector<int>{0});
    members_.add(name, ranks);
    return std::make_shared<PlannedGroup>(name, ranks, 0, device);
  }
  std::string backend(c10::Device) const override { return "none"; }
  std::vector<std::string> exchange(const std::string& mine) override { return {mine}; }
  void report_failure(const std::string&) override {}

 private:
  World world_;
  peers::GroupMembers members_;
};

/// The groups on a GPU, whose calls hang on the device when a peer is dead. Gloo's notice a failure themselves.
class DeviceGroups final : public peers::Backends {
 public:
  void add(const std::shared_ptr<DeviceGroup>& group) {
    const std::scoped_lock lock(mutex_);
    groups_.push_back(group);
  }
  void abort() override {
    std::unique_lock lock(mutex_);
    const auto groups = groups_;
    lock.unlock();
    for (const auto& weak : groups) {
      if (const auto group = weak.lock()) group->abort();
    }
  }

 private:
  std::mutex mutex_;
  std::vector<std::weak_ptr<DeviceGroup>> groups_;
};

class Connected final : public Communicator {
 public:
  explicit Connected(const ConnectOptions& options)
      : options_(options),
        device_groups_(std::make_shared<DeviceGroups>()),
        peers_(peers::Peers::meet(options, device_groups_)),
        gloo_device_(make_gloo_device(peers_->address())) {}

  const World& world() const override { return options_.world; }
  void trace(std::shared_ptr<monitor::Tracer> tracer) override { peers_->calls()->trace(std::move(tracer)); }

  std::shared_ptr<Group> group(const std::string& name, const std::vector<int>& ranks, c10::Device device) override {
    const auto found = std::find(ranks.begin(), ranks.end(), world().rank);
    CAPSTAN_ASSERT(found != ranks.end());
    const int rank = static_cast<int>(found - ranks.begin());
    peers_->assemble(name, ranks);
    if (ranks.size() == 1) return std::make_shared<PlannedGroup>(name, ranks, 0, device);
    // Gloo's own limit counts only while its group is made.
    if (device.is_cpu())
      return make_gloo_group({name, ranks, rank, gloo_device_, options_.deterministic, 2 * options_.timeout}, peers_);
    if (options_.nccl == nullptr) throw Error("groups on a GPU need the GPU module", "run with device = \"cpu\"");
    auto made = options_.nccl->make({name, ranks, rank, device, options_.timeout}, peers_->store(), peers_->calls());
    device_groups_->add(made);
    return made;
  }

  std::string backend(c10::Device device) const override { return device.is_cpu() ? "gloo" : "nccl"; }
  std::vector<std::string> exchange(const std::string& mine) override { return peers_->exchange(mine); }
  std::string rendezvous() const override { return peers_->rendezvous(); }
  void report_failure(const std::string& message) override { peers_->report_failure(message); }

 private:
  const ConnectOptions options_;
  std::shared_ptr<DeviceGroups> device_groups_;
  std::shared_ptr<peers::Peers> peers_;
  std::shared_ptr<GlooDevice> gloo_device_;
};

}  // namespace

Communicator::~Communicator() = default;

ConnectOptions::ConnectOptions() { torchrun = &torchrun_stores(); }

std::unique_ptr<Communicator> connect(const ConnectOptions& options) {
  CAPSTAN_ASSERT(options.world.rank >= 0 && options.world.rank < options.world.size);
  if (options.world.size == 1) return std::make_unique<Alone>(options.world);
  return std::make_unique<Connected>(options);
}

}  // namespace capstan::comm
