#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/connect.h>

#include <memory>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace store {
class Store;
}
namespace comm {

class FailureState;

/// The result of the rendezvous on a rank.
struct Joined {
  std::unique_ptr<store::Store> store;
  std::string address;             ///< this rank's, for Gloo
  std::vector<std::string> hosts;  ///< by rank
  bool hosts_store = false;
  std::string where;  ///< the store's address, as the rank that runs it knows it: "10.0.0.7:43121"
};

/// Opens or finds the store and waits until all ranks have joined. Throws Error that names those that did not.
Joined join_rendezvous(const ConnectOptions& options);

/// Waits until all keys are in the store, and throws if the run or the store fails meanwhile. Returns false after
/// `limit`.
bool wait_for(store::Store& store, const std::vector<std::string>& keys, FailureState& failure,
              std::chrono::milliseconds limit);

}  // namespace comm
CAPSTAN_END_NAMESPACE
