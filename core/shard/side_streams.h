#pragma once
#include <capstan/base/export.h>

#include "comm/side_stream.h"

CAPSTAN_BEGIN_NAMESPACE
namespace shard {

using comm::Event;
using comm::SideStream;

/// The engine's side streams. Work of one kind is in order, so that it can share buffers.
struct SideStreams {
  SideStreams(c10::Device device, bool overlap)
      : gather(device, overlap),
        reduce(device, overlap),
        replicate(device, overlap),
        transfer(device, overlap),
        bring_back(device, overlap) {}
  SideStream gather;      ///< all-gathers and their unpacking
  SideStream reduce;      ///< reduce-scatters and their packing
  SideStream replicate;   ///< hybrid's all-reduce between copies
  SideStream transfer;    ///< gradients to the host, updated parameters back
  SideStream bring_back;  ///< earlier micro-steps' gradients back from the host
};

}  // namespace shard
CAPSTAN_END_NAMESPACE
