#pragma once
#include <vector>

#include "table.h"

namespace pipeline_parallel {

/// One forward, one backward (Narayanan et al. 2019, "PipeDream"; 2021, "Efficient Large-Scale Language Model Training
/// on GPU Clusters"): a position begins with as many forwards as lie between it and the last, then a backward follows
/// each forward. With several chunks, stages go round the positions in turn and micro-batches in groups of `ranks`
/// through all chunks. Any number of micro-batches: the last group may have fewer.
Table one_forward_one_backward(int ranks, int chunks, int micros);

/// The same order of forwards and backwards, each backward in two parts (Qi et al. 2023, "Zero Bubble Pipeline
/// Parallelism", schedule ZB-H1): position i is i micro-batches late with gradients of weights, which fill the end. No
/// position holds more activations than position 0 of one forward, one backward.
Table zero_bubble(int ranks, int chunks, int micros);

/// DeepSeek's DualPipeV: two stages a position, those of the second half in the opposite order, so that the last stage
/// is on position 0. A position alternates a forward of one stage and a backward of the other. Any number of
/// micro-batches; the bubble is short from twice as many as positions on.
Table dual_pipe_v(int ranks, int micros);

/// The table for a model none of whose gradients of weights can be left to later: backwards in one part.
Table in_one_part(Table table);

}  // namespace pipeline_parallel
