#pragma once
#include <capstan/base/export.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "peers/failure.h"
#include "peers/options.h"
#include "peers/store.h"

CAPSTAN_BEGIN_NAMESPACE
namespace peers {

/// The result of the rendezvous on a rank.
struct Joined {
  std::unique_ptr<Store> store;
  std::string address;             ///< this rank's, for Gloo
  std::vector<std::string> hosts;  ///< by rank
  bool hosts_store = false;
  std::string where;  ///< the store's address, as the rank that runs it knows it: "10.0.0.7:43121"
};

/// Opens or finds the store and waits until all ranks have joined. Throws Error that names those that did not.
Joined join_rendezvous(const Options& options);

/// Connects to the run's store at one of its addresses, whoever runs it; keeps trying for `limit`.
std::unique_ptr<Store> reach_store(const Options& options, const std::string& address, int port,
                                   const std::string& secret, std::chrono::milliseconds limit);

/// Waits until all keys are in the store, and throws if the run or the store fails meanwhile. Returns false after
/// `limit`.
bool wait_for(Store& store, const std::vector<std::string>& keys, FailureState& failure,
              std::chrono::milliseconds limit);

/// The failure that a rank wrote next to the rendezvous file when it failed before connecting; nothing if the
/// rendezvous is an address, or if the file is much older than this process and so from another attempt.
std::optional<Failure> read_early_failure(const Rendezvous& where);

/// Rank 0, which runs the store: waits until the other ranks know of the failure ("informed/r"), or those of them that
/// have joined ("hello/r"), for at most `limit`.
void wait_until_informed(Store& store, int size, std::chrono::milliseconds limit, bool joined_alone = true);

}  // namespace peers
CAPSTAN_END_NAMESPACE
