#include "peers/peers.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/peers/peer_failed.h>

#include <exception>
#include <stdexcept>
#include <utility>

#include "peers/heartbeat.h"
#include "peers/patience.h"
#include "peers/rendezvous.h"
#include "peers/watch.h"

namespace capstan::peers {

std::shared_ptr<Peers> Peers::meet(const Options& options, std::shared_ptr<Backends> backends) {
  try {
    return std::make_shared<Peers>(options, join_rendezvous(options), std::move(backends));
  } catch (const comm::PeerFailed&) {
    throw;
  } catch (const Error& error) {
    if (options.rendezvous.file.empty()) throw;
    // Rank 0 may have ended for another's failure while this rank joined.
    if (const auto first = read_early_failure(options.rendezvous)) throw comm::PeerFailed(first->text(), first->rank);
    report_early_failure(options, error.what());
    throw;
  }
}

Peers::Peers(const Options& options, Joined joined, std::shared_ptr<Backends> backends)
    : options_(options),
      joined_(std::make_unique<const Joined>(std::move(joined))),
      failure_(std::make_shared<FailureState>(options.world.rank)),
      calls_(std::make_shared<CallLog>(failure_)),
      exceptions_before_(std::uncaught_exceptions()) {
  const std::string owner = options.rendezvous.store_exists ? cat("the rendezvous store at ", options.rendezvous.text())
                                                            : cat("rank 0 on ", joined_->hosts.front());
  heartbeat_ = start_heartbeat({options, joined_->hosts, joined_->hosts_store, owner, members_, std::move(backends)},
                               joined_->store->clone(), calls_, failure_);
  watch_ = std::make_unique<Watch>(options, owner, heartbeat_, calls_, failure_);
}

Peers::~Peers() {
  if (std::uncaught_exceptions() > exceptions_before_) report_failure("it ended by an exception, see its output");
  heartbeat_->close();
}

const std::string& Peers::address() const { return joined_->address; }
const std::string& Peers::rendezvous() const { return joined_->where; }
const Store& Peers::store() const { return *joined_->store; }

std::vector<std::string> Peers::exchange(const std::string& mine) {
  const int round = ++exchanges_;
  std::vector<std::string> keys;
  for (int rank = 0; rank < options_.world.size; ++rank) keys.push_back(cat("exchange/", round, "/", rank));
  joined_->store->set(keys[static_cast<std::size_t>(options_.world.rank)], mine);
  await(keys, "exchange");
  return joined_->store->get(keys);
}

void Peers::assemble(const std::string& group, const std::vector<int>& ranks) {
  members_->add(group, ranks);
  if (ranks.size() == 1) return;
  std::string list;
  std::vector<std::string> keys;
  for (const int rank : ranks) {
    list += cat(rank, " ");
    keys.push_back(cat("group/", group, "/", rank));
  }
  joined_->store->set(cat("group/", group, "/", options_.world.rank), list);
  await(keys, cat("making group ", group));
  for (const std::string& theirs : joined_->store->get(keys)) {
    if (theirs != list) throw std::logic_error(cat("ranks disagree about the members of group ", group));
  }
}

void Peers::report_failure(const std::string& message) {
  failure_->fail({options_.world.rank, options_.world.host, message});
}

void Peers::find_failure(const std::string& reason) { heartbeat_->find_failure(reason); }

void Peers::await(const std::vector<std::string>& keys, const std::string& what) {
  const std::uint64_t ticket = calls_->begin("store", "world", what, exchanges_);
  while (!wait_for(*joined_->store, keys, *failure_, options_.timeout + std::chrono::seconds(10))) {
    if (heartbeat_->patience().excuses()) continue;
    throw Error(cat(what, ": not all ranks came within the time limit"),
                "look for a rank that ended or stands still; comm.timeout_s lets the others wait longer");
  }
  calls_->end(ticket);
}

}  // namespace capstan::peers
