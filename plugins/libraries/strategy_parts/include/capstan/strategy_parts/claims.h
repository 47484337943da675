#pragma once
// What several of Capstan's own strategies claim, beside the override points of capstan/strategy/claims.h.

namespace capstan::strategy {

/// For what attends in a way of its own, or keeps what attention's kernels gave. A conflict's text says what asks for
/// it, since no table has to go.
inline constexpr const char* attention_kernels =
    "the kernels of attention, one for strategy.context_parallel.method = \"ring\", the other for "
    "strategy.recompute.keep_attention";

}  // namespace capstan::strategy
