#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "session/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace session {

/// What a checkpoint takes of a run's tensors.
enum class Saves {
  all,             ///< parameters, the optimizer's state, strategies' own
  trainable,       ///< … without frozen parameters
  weights,         ///< parameters alone, one copy of each
  trained_weights  ///< … without frozen parameters
};

/// What this rank gives to a checkpoint: views, nothing is copied or gathered. All ranks together give each element
/// once. Ranks that keep values of their own on an axis give one copy each. Waits for an update that still runs.
std::vector<checkpoint::TensorBox> saved_boxes(const Session& session, const strategy::OptimizerRule& rule, int rank,
                                               Saves what);

/// Gives optimizer state and strategies' own tensors back; parameters came with materialise(). Returns what could not
/// be given back as it was, in words. Throws Error with every state that the checkpoint lacks.
std::vector<std::string> restore_state(Session& session, const strategy::OptimizerRule& rule, const Job& job,
                                       checkpoint::Reader& reader);

}  // namespace session
CAPSTAN_END_NAMESPACE
