#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/connect.h>

#include <chrono>
#include <optional>

#include "comm/failure.h"

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

class Store;

/// What a rank that failed before it connected left beside the rendezvous file; nothing where the rendezvous is an
/// address, or when it is much older than this process and so another attempt's.
std::optional<Failure> read_early_failure(const Rendezvous& where);

/// Rank 0, where the store is: waits for those of the `size` ranks that came ("hello/r") to know of the failure
/// ("informed/r"), no longer than `limit`.
void wait_until_informed(Store& store, int size, std::chrono::milliseconds limit);

}  // namespace comm
CAPSTAN_END_NAMESPACE
