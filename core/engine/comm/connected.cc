// The communicator of ranks that are processes.
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include "comm/connect.h"

#include <algorithm>
#include <exception>
#include <map>
#include <mutex>
#include <utility>

#include "comm/call_log.h"
#include "comm/failure.h"
#include "comm/gloo.h"
#include "comm/heartbeat.h"
#include "comm/nccl.h"
#include "comm/patience.h"
#include "comm/planned_group.h"
#include "comm/proof.h"
#include "comm/rendezvous.h"
#include "comm/store.h"
#include "comm/watch.h"

namespace capstan::comm {
namespace {

/// The groups of a rank, for access from other threads.
class Registry {
 public:
  void add(const std::string& name, const std::vector<int>& ranks) {
    const std::scoped_lock lock(mutex_);
    if (!members_.emplace(name, ranks).second) throw std::logic_error(cat("the group name '", name, "' is used twice"));
  }
  void add(const std::shared_ptr<DeviceGroup>& group) {
    const std::scoped_lock lock(mutex_);
    device_groups_.push_back(group);
  }
  std::vector<int> members(const std::string& name) const {
    const std::scoped_lock lock(mutex_);
    if (const auto ends = transfer_ends(name)) return *ends;
    const auto found = members_.find(name);
    return found == members_.end() ? std::vector<int>() : found->second;
  }
  void abort_device_groups() const {
    std::unique_lock lock(mutex_);
    const auto groups = device_groups_;
    lock.unlock();
    for (const auto& weak : groups) {
      if (const auto group = weak.lock()) group->abort();
    }
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::vector<int>> members_;
  std::vector<std::weak_ptr<DeviceGroup>> device_groups_;
};

/// A world of a single rank.
class Alone final : public Communicator {
 public:
  explicit Alone(World world) : world_(std::move(world)) {}
  const World& world() const override { return world_; }
  std::shared_ptr<Group> group(const std::string& name, const std::vector<int>& ranks, c10::Device device) override {
    CAPSTAN_ASSERT(ranks == std::vector<int>{0});
    registry_.add(name, ranks);
    return std::make_shared<PlannedGroup>(name, ranks, 0, device);
  }
  std::string backend(c10::Device) const override { return "none"; }
  std::vector<std::string> exchange(const std::string& mine) override { return {mine}; }
  void report_failure(const std::string&) override {}

 private:
  World world_;
  Registry registry_;
};

class Connected final : public Communicator {
 public:
  Connected(const ConnectOptions& options, Joined joined)
      : options_(options),
        joined_(std::move(joined)),
        gloo_device_(make_gloo_device(joined_.address)),
        failure_(std::make_shared<FailureState>(options.world.rank)),
        log_(std::make_shared<CallLog>(failure_)) {
    const std::string owner = options.rendezvous.store_exists
                                  ? cat("the rendezvous store at ", options.rendezvous.text())
                                  : cat("rank 0 on ", joined_.hosts.front());
    heartbeat_ = start_heartbeat({options, joined_.hosts, joined_.hosts_store, owner,
                                  [registry = registry_](const std::string& name) { return registry->members(name); },
                                  [registry = registry_] { registry->abort_device_groups(); }},
                                 joined_.store->clone(), log_, failure_);
    watch_ = std::make_unique<Watch>(options, owner, heartbeat_, log_, failure_);
  }

  ~Connected() override {
    if (std::uncaught_exceptions() > exceptions_before_) report_failure("it ended by an exception, see its output");
    heartbeat_->close();
  }

  const World& world() const override { return options_.world; }
  void trace(std::shared_ptr<monitor::Tracer> tracer) override { log_->trace(std::move(tracer)); }

  std::shared_ptr<Group> group(const std::string& name, const std::vector<int>& ranks, c10::Device device) override {
    const auto found = std::find(ranks.begin(), ranks.end(), world().rank);
    CAPSTAN_ASSERT(found != ranks.end());
    const int rank = static_cast<int>(found - ranks.begin());
    registry_->add(name, ranks);
    if (ranks.size() == 1) return std::make_shared<PlannedGroup>(name, ranks, 0, device);
    assemble(name, ranks);
    if (device.is_cpu()) {
      const auto lost = [weak = std::weak_ptr(heartbeat_)](const std::string& reason) {
        if (const auto heartbeat = weak.lock()) heartbeat->find_failure(reason);
      };
      // Gloo's own limit counts only while its group is made.
      return make_gloo_group({name, ranks, rank, gloo_device_, options_.deterministic, 2 * options_.timeout},
                             *joined_.store, log_, failure_, lost);
    }
    if (options_.nccl == nullptr) throw Error("groups on a GPU need the GPU module", "run with device = \"cpu\"");
    auto made = options_.nccl->make({name, ranks, rank, device, options_.timeout}, *joined_.store, log_);
    registry_->add(made);
    return made;
  }

  std::string backend(c10::Device device) const override { return device.is_cpu() ? "gloo" : "nccl"; }

  std::vector<std::string> exchange(const std::string& mine) override {
    const int round = ++exchanges_;
    std::vector<std::string> keys;
    for (int rank = 0; rank < world().size; ++rank) keys.push_back(cat("exchange/", round, "/", rank));
    joined_.store->set(keys[static_cast<std::size_t>(world().rank)], mine);
    await(keys, "exchange");
    return joined_.store->get(keys);
  }

  std::string rendezvous() const override { return joined_.where; }

  void report_failure(const std::string& message) override { failure_->fail({world().rank, world().host, message}); }

 private:
  /// Waits until all members are here with the same list, so that a backend is only made among ranks that are alive.
  void assemble(const std::string& name, const std::vector<int>& ranks) {
    std::string list;
    std::vector<std::string> keys;
    for (const int rank : ranks) {
      list += cat(rank, " ");
      keys.push_back(cat("group/", name, "/", rank));
    }
    joined_.store->set(cat("group/", name, "/", world().rank), list);
    await(keys, cat("making group ", name));
    for (const std::string& theirs : joined_.store->get(keys)) {
      if (theirs != list) throw std::logic_error(cat("ranks disagree about the members of group ", name));
    }
  }

  void await(const std::vector<std::string>& keys, const std::string& what) {
    const std::uint64_t ticket = log_->begin("store", "world", what, exchanges_);
    while (!wait_for(*joined_.store, keys, *failure_, options_.timeout + std::chrono::seconds(10))) {
      if (heartbeat_->patience().excuses()) continue;
      throw Error(cat(what, ": not all ranks came within the time limit"),
                  "look for a rank that ended or stands still; comm.timeout_s lets the others wait longer");
    }
    log_->end(ticket, c10::Device(c10::kCPU));
  }

  const ConnectOptions options_;
  const Joined joined_;
  std::shared_ptr<GlooDevice> gloo_device_;
  std::shared_ptr<FailureState> failure_;
  std::shared_ptr<CallLog> log_;
  std::shared_ptr<Registry> registry_ = std::make_shared<Registry>();
  std::shared_ptr<Heartbeat> heartbeat_;
  std::unique_ptr<Watch> watch_;
  int exchanges_ = 0;
  const int exceptions_before_ = std::uncaught_exceptions();
};

}  // namespace

std::unique_ptr<Communicator> connect(const ConnectOptions& options) {
  CAPSTAN_ASSERT(options.world.rank >= 0 && options.world.rank < options.world.size);
  if (options.world.size == 1) return std::make_unique<Alone>(options.world);
  try {
    return std::make_unique<Connected>(options, join_rendezvous(options));
  } catch (const PeerFailed&) {
    throw;
  } catch (const Error& error) {
    if (options.rendezvous.file.empty()) throw;
    // Rank 0 may have ended for another's failure while this rank joined.
    if (const auto first = read_early_failure(options.rendezvous)) throw PeerFailed(first->text(), first->rank);
    report_early_failure(options, error.what());
    throw;
  }
}

RendezvousServer::RendezvousServer(const std::string& prefix) {
  where_.secret = new_secret();
  store_ = Store::serve("127.0.0.1", 0, prefix, where_.secret);
  where_.host = "127.0.0.1";
  where_.port = store_->port();
  where_.prefix = prefix;
  where_.store_exists = true;
}

RendezvousServer::~RendezvousServer() = default;

void RendezvousServer::publish_failure(int rank, const std::string& host, const std::string& message) {
  store_->set_if_absent("failure", Failure{rank, host, message}.serialized());
}

}  // namespace capstan::comm
