#pragma once
#include <capstan/base/export.h>

#include <vector>

#include "job/position.h"
#include "job/predict.h"

CAPSTAN_BEGIN_NAMESPACE
namespace predict {

/// A prediction may be wrong by 5 %.
inline bool fits_into(std::int64_t room, std::int64_t peak) { return peak + peak / 20 <= room; }

/// Adds to what the owners of memory count themselves what micro-batches take on a GPU, and what a step computes and
/// moves, at each position on pp: by a dry run of a model that is assembled for it. Where that cannot be made a note
/// says why. Throws Error where a strategy's port is passed over.
void add_micro_step(const std::vector<job::Position>& positions, const job::PredictionInputs& inputs,
                    std::vector<job::Prediction>& predictions);

}  // namespace predict
CAPSTAN_END_NAMESPACE
