#pragma once
#include <capstan/base/export.h>
#include <capstan/layout/footprint.h>

#include <optional>
#include <string>
#include <vector>

#include "job/assemble.h"
#include "job/frozen_models.h"
#include "job/samples.h"
#include "step_time/work.h"

CAPSTAN_BEGIN_NAMESPACE
namespace job {

/// The fifth stage: what an assembled model will take of a rank's memory. `check` ends here. Where the model is cut
/// into stages it is of the position on pp that takes most of the device's memory.
struct Prediction {
  std::vector<layout::Footprint> footprints;
  bool activations = false;      ///< the footprints at work are those of a micro-step's peak
  std::string activations_note;  ///< for people: what a micro-step keeps and where the peak is, or why it is unknown
  std::string state_note = {};   ///< for people: where ranks divide blocks of the optimizer's states; or empty
  std::string stages_note = {};  ///< for people: what each position on pp takes; empty: there is one
  std::optional<plan::StepWork> work = {};  ///< what a step computes and moves, where activations are known
  std::vector<plan::StepWork> works = {};   ///< the same at each position on pp, where there are several
  /// The work at each position on pp, also where there is one.
  std::vector<plan::StepWork> work_of_positions() const { return works.empty() ? std::vector{work.value()} : works; }
  std::int64_t largest_tensor = 0;  ///< bytes of the largest one at work, where activations are known
  bool holds = false;  ///< evaluations have room to keep what they gather: the request's gpu_room, at all positions
  /// Training's peak and an evaluation's, where a run has both: the larger one is the sum of the parts, and must fit.
  std::vector<layout::Footprint> peaks = {};
};

/// What a rank will allocate for parameters, gradients, optimizer state (as many tensors as the rule asks for),
/// collectives and checkpoints, and what strategies say. No rank is asked. Where the request asks for activations on a
/// GPU, libcapstan_predict.so adds what a micro-step takes and computes. `frozen`: the objective's models, which have
/// rows of their own.
Prediction predict(const setup::Configuration& config, const Plugins& plugins, const Topology& topology,
                   const Samples& samples, const AssembledModel& model, const std::vector<FrozenModel>& frozen);

/// The parts of an objective's model as they are listed: "teacher: parameters". Empty ones are left out.
std::vector<layout::Footprint> named(const std::string& model, std::vector<layout::Footprint> parts);

}  // namespace job
CAPSTAN_END_NAMESPACE
