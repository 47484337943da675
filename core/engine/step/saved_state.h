#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "checkpoint/checkpoint.h"
#include "step/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// What this rank gives to a checkpoint: parameters, the optimizer's state, strategies' own tensors. Views: nothing is
/// copied or gathered. All ranks together give each element once. Ranks that keep values of their own on an axis give
/// one copy each. Frozen parameters as checkpoint.save has it. Waits for an update that still runs.
std::vector<checkpoint::TensorBox> saved_boxes(const Session& session);
/// The parameters among them, one copy of each.
std::vector<checkpoint::TensorBox> saved_weights(const Session& session);

/// Gives optimizer state and strategies' own tensors back; parameters came with materialise(). Returns what could not
/// be given back as it was, in words. Throws Error with every state that the checkpoint lacks.
std::vector<std::string> restore_state(Session& session, checkpoint::Reader& reader);

}  // namespace step
CAPSTAN_END_NAMESPACE
