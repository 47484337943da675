#pragma once
#include <capstan/base/export.h>

#include <vector>

#include "assembly/position.h"
#include "assembly/predict.h"

CAPSTAN_BEGIN_NAMESPACE
namespace assembly {

/// A prediction may be wrong by 5 %.
inline bool fits_into(std::int64_t room, std::int64_t peak) { return peak + peak / 20 <= room; }

/// Adds to what the owners of memory count themselves what micro-batches take on a GPU, and what a step computes and
/// moves, at each position on pp: by a dry run of a model that is assembled for it. Where that cannot be made a note
/// says why. Throws Error where a strategy's port is passed over.
void add_micro_step(const std::vector<Position>& positions, const PredictionInputs& inputs,
                    std::vector<Prediction>& predictions);

}  // namespace assembly
CAPSTAN_END_NAMESPACE
