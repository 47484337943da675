#pragma once
#include <capstan/base/export.h>

#include "comm/lane.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

using comm::Lane;

/// The engine's lanes. Work of one kind is in order, so that it can share buffers.
struct Lanes {
  Lanes(c10::Device device, bool overlap)
      : gather(device, overlap),
        reduce(device, overlap),
        replicate(device, overlap),
        transfer(device, overlap),
        back(device, overlap) {}
  Lane gather;     ///< all-gathers and what unpacks them
  Lane reduce;     ///< reduce-scatters and what packs for them
  Lane replicate;  ///< hybrid's all-reduce between copies
  Lane transfer;   ///< gradients to the host, updated parameters back
  Lane back;       ///< earlier micro-steps' gradients back from the host
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
