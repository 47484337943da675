#pragma once
#include "gated_delta_rule.h"

namespace qwen3_5 {

/// Whether kernels compute it: bfloat16 on a GPU of compute capability 8.0 or later, key dim and value dim equal and 64
/// or 128, chunks of 64 tokens.
bool has_delta_kernels(const DeltaInput& input, const DeltaCut& cut);

/// The same as gated_delta_rule(). Products are those of bfloat16 numbers, summed in float32; states are float32, and
/// rounded where they are read. Backward keeps what goes in and the state of each segment but the first, and has of one
/// segment at a time, by chunk and value head: two states, four times its values, float32 gradients of q and k.
DeltaResult delta_by_kernels(const DeltaInput& input, const DeltaCut& cut);

}  // namespace qwen3_5
