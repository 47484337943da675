#pragma once
#include <capstan/base/export.h>
#include <capstan/comm/communicator.h>

#include <memory>

#include "peers/options.h"

CAPSTAN_BEGIN_NAMESPACE
namespace comm {

class NcclFactory;

/// Everything that connecting needs to know.
struct ConnectOptions : peers::Options {
  /// Knows how the store of torchrun's agent is reached.
  ConnectOptions();

  bool deterministic = false;         ///< CPU all-reduce in rank order; reduce-scatter on CPU always is
  const NcclFactory* nccl = nullptr;  ///< from ranks::Device; without it only CPU groups can be made
};

/// Connects to the peers and returns when all are there (Peers::meet). With one rank nothing is opened. The object's
/// destruction says goodbye; rank 0's waits for the others' (the store lives in it).
std::unique_ptr<Communicator> connect(const ConnectOptions& options);

}  // namespace comm
CAPSTAN_END_NAMESPACE
