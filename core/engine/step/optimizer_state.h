#pragma once
#include <capstan/base/export.h>

#include <string>
#include <vector>

#include "step/session.h"

CAPSTAN_BEGIN_NAMESPACE
namespace step {

/// The optimizer's states in checkpoints. A state is a logical tensor "optimizer/<state>/<record>": with the record's
/// shape, or where an element stands for a block, with an element for each of the record's blocks. Where ranks' boxes
/// divide blocks, each box has blocks of its own, and its elements are a tensor that the box is part of the name of:
/// "optimizer/<state>/<record>@[0:3, 0:5]". A state of a joint update has the shape that the update says
/// (optimizer::StatePart), and the rank that it says writes it.

std::vector<checkpoint::TensorBox> saved_states(const Session& session);

/// Takes them back, for any mesh and sharding; returns what is to be said of it. Throws Error where the optimizer of
/// this run keeps other states than were saved.
std::vector<std::string> restore_states(Session& session, checkpoint::Reader& reader);

}  // namespace step
CAPSTAN_END_NAMESPACE
