#pragma once
#include <capstan/nn/model.h>

namespace capstan::strategy {

/// Runs the unit without a graph, keeping its inputs; in backward runs it again with one and goes through that
/// (re-entrant checkpointing). Weights' gradients accumulate as usual; randomness is keyed, so masks are the same.
nn::Hidden recomputed(nn::Unit& unit, nn::Hidden hidden, const nn::Batch& batch);

}  // namespace capstan::strategy
