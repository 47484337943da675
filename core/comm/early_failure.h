#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/connect.h>

#include <chrono>
#include <optional>

#include "comm/failure.h"

CAPSTAN_BEGIN_NAMESPACE
namespace store {
class Store;
}
namespace comm {

/// The failure that a rank wrote next to the rendezvous file when it failed before connecting; nothing if the
/// rendezvous is an address, or if the file is much older than this process and so from another attempt.
std::optional<Failure> read_early_failure(const Rendezvous& where);

/// Rank 0, which runs the store: waits until those of the `size` ranks that joined ("hello/r") know of the failure
/// ("informed/r"), for at most `limit`.
void wait_until_informed(store::Store& store, int size, std::chrono::milliseconds limit);

}  // namespace comm
CAPSTAN_END_NAMESPACE
