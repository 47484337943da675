#pragma once
#include <capstan/base/export.h>

#include <cstdint>
#include <string>

#include "assembly/samples.h"
#include "assembly/step_work.h"
#include "shard/plan.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// What a micro-step takes of a GPU's memory besides what is there always, bytes.
struct MicroStepMemory {
  std::int64_t kept = 0;      ///< activations between forward and backward
  std::int64_t gathered = 0;  ///< full copies of sharded parameters, at the peak
  std::int64_t work = 0;      ///< activations, gradients on their way and temporaries, at the peak
  std::string peak;           ///< "backward of blocks.3": where the most is there at once
  MicroStepWork computed;     ///< and what it moves
};

/// What a dry run is of.
struct DryRunOf {
  const setup::Configuration& config;
  const setup::Plugins& plugins;
  const Topology& topology;
  const Samples& samples;
  const shard::EngineOptions& options;  ///< of the engine that is counted
};

/// Assembles a model of its own, with strategies of its own, on the meta device.
///
/// Runs forward and backward of one micro-batch of the longest samples on the meta device, with this rank's shapes, all
/// strategies' hooks and an executor that only counts, and watches what is allocated and computed. Answers for a GPU.
/// Throws what an operator without a shape rule throws. Not while other threads use the meta device.
MicroStepMemory dry_run(const DryRunOf& what);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
