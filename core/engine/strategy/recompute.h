#pragma once
#include <capstan/nn/model.h>

#include <string>

namespace capstan::strategy {

/// The unit's forward. `context` is appended to the message of what it throws, except for a peer's failure, which is
/// not the unit's own.
nn::Hidden run_unit(nn::Unit& unit, const std::string& context, nn::Hidden hidden, const nn::Batch& batch,
                    nn::KVCache* cache);

/// Runs the unit without a graph, keeping its inputs; in backward runs it again with a graph and backpropagates through
/// it (re-entrant checkpointing). Weights' gradients accumulate as usual; randomness is keyed, so masks are the same.
nn::Hidden recomputed(nn::Unit& unit, const std::string& context, nn::Hidden hidden, const nn::Batch& batch);

}  // namespace capstan::strategy
