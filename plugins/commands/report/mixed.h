#pragma once
#include <string>
#include <vector>

#include "runs/run.h"

namespace report {

/// Sentences about runs that differ from the base in the model, the data or the batch size, so that speeds and losses
/// do not compare. Options in `grows` may differ: the table is about their growth. Of the batch, that of a rank or that
/// of all ranks has to be the base's.
std::vector<std::string> what_is_mixed(const std::vector<runs::Run>& runs, const runs::Run& base,
                                       const std::vector<std::string>& grows);

}  // namespace report
