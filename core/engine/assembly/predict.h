#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/footprint.h>

#include <optional>
#include <string>
#include <vector>

#include "assembly/assemble.h"
#include "assembly/frozen_models.h"
#include "assembly/samples.h"
#include "assembly/step_work.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// The fifth stage: what an assembled model will take of this rank's memory. `check` ends here.
struct Prediction {
  std::vector<layout::Footprint> footprints;
  bool activations = false;      ///< the footprints at work are those of a micro-step's peak
  std::string activations_note;  ///< for people: what a micro-step keeps and where the peak is, or why it is unknown
  std::string state_note = {};   ///< for people: where ranks divide blocks of the optimizer's states; or empty
  std::optional<StepWork> work = {};  ///< what a step computes and moves, where activations are known
};

/// What this rank will allocate for parameters, gradients, optimizer state (as many tensors as the rule asks for),
/// collectives and checkpoints, and what strategies say. No rank is asked. Where the request asks for activations, a
/// second model is assembled for the dry run of a micro-step. `frozen`: the objective's models, which have rows of
/// their own.
Prediction predict(const setup::Configuration& config, const Plugins& plugins, const Topology& topology,
                   const Samples& samples, const AssembledModel& model, const std::vector<FrozenModel>& frozen);

/// The parts of an objective's model as they are listed: "teacher: parameters". Empty ones are left out.
std::vector<layout::Footprint> named(const std::string& model, std::vector<layout::Footprint> parts);

/// Host memory that this rank will allocate: on a CPU all that it trains with; with a GPU what is offloaded, and the
/// copy of a checkpoint.
std::int64_t host_bytes(const Prediction& prediction, const std::string& device);
/// What run.host_memory says that the ranks of a node may use, where it is set.
std::optional<std::int64_t> told_host_memory(const setup::RunOptions& run);

/// Checks the host memory that the ranks of one node allocate together against what is available (nothing: it is
/// unknown), before anything is allocated.
void check_host_memory(const setup::Configuration& config, const Topology& topology, const Prediction& prediction,
                       std::optional<std::int64_t> available, Diagnostics& diagnostics);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
