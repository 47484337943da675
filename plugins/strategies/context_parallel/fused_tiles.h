#pragma once
#include "tiles.h"

namespace context_parallel {

/// Does flash attention (FlashAttention-2, Dao 2023) compute tiles of these queries [B, key heads, group, queries,
/// dim]? On a GPU that has it, in 16 bits, where scores are q k alone: without ALiBi, windows and packed rows. Its
/// tiles may have any size, since no scores are in memory.
bool has_fused_tiles(const at::Tensor& queries, const ScoreRules& rules);

/// One tile of attend().
void attend_fused(const Attended& so_far, const at::Tensor& queries, const at::Tensor& block, const Tile& tile,
                  double scale);

/// One tile of add_gradients(). The kernel finds the tile's weights by the logarithms of all keys' sums, and the tile's
/// gradients by the result of all keys (Liu et al. 2023, "Ring Attention with Blockwise Transformers").
void add_gradients_fused(const QueryGradients& gradients, const at::Tensor& of_block, const at::Tensor& queries,
                         const at::Tensor& block, const Tile& tile, double scale);

}  // namespace context_parallel
