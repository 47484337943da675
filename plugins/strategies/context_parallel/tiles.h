#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/nn/batch.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace context_parallel {

/// Queries that follow each other, and keys that do: a part of the scores of one rank's queries with one rank's keys.
struct Tile {
  std::int64_t query = 0;            ///< the first one's place among the rank's queries
  std::int64_t key = 0;              ///< the first one's place among the rank's keys
  capstan::nn::ColumnRange queries;  ///< their columns in whole rows
  capstan::nn::ColumnRange keys;
  bool partial = false;  ///< a key comes after a query, or before its window
};

/// The tiles of at most `longest` queries and as many keys that have a pair which a causal mask and a window of that
/// many columns let see each other. Each such pair is in one of them.
std::vector<Tile> visible_tiles(const std::vector<capstan::nn::ColumnRange>& queries,
                                const std::vector<capstan::nn::ColumnRange>& keys, std::optional<std::int64_t> window,
                                std::int64_t longest);

/// What scores are besides q k. All is of whole rows, so that each rank knows what it is for another one's keys.
struct ScoreRules {
  double scale = 1;                    ///< factor of q k
  std::optional<std::int64_t> window;  ///< a token sees this many columns, its own included; none: all before it
  at::Tensor slopes;     ///< [heads]: times a key's position they are added (ALiBi). Undefined: nothing is added
  at::Tensor positions;  ///< [B, all columns] int64, where there are slopes
  at::Tensor sequences;  ///< [B, all columns] int64: tokens see their own sequence. Undefined: a row is one
};

/// Attention so far of queries that saw some of the keys, in float32, or in float64 for float64: `out`, the mean of
/// these keys' values, and the logarithm of the sum of exp(score) over them, -inf where there was none. Online softmax
/// (Milakov and Gimelshein 2018): more keys change both.
struct Attended {
  at::Tensor out;             ///< [B, key heads, group, queries, dim]
  at::Tensor log_of_weights;  ///< [B, key heads, group, queries, 1]
};
Attended nothing_seen(const at::Tensor& queries);

/// Lets queries [B, key heads, group, queries, dim] see a block of keys and values [2, B, key heads, keys, dim].
/// Products are in their dtype; no more of the scores than a tile's are in memory, and none where a fused kernel takes
/// tiles (fused_tiles.h).
void attend(const Attended& so_far, const at::Tensor& queries, const at::Tensor& block, const std::vector<Tile>& tiles,
            const ScoreRules& rules);

/// What backward knows of queries, and adds to.
struct QueryGradients {
  at::Tensor of_out;          ///< as queries, in their dtype
  at::Tensor out;             ///< as of_out: what attention gave, when all keys were seen
  at::Tensor log_of_weights;  ///< as in Attended, when all keys were seen
  at::Tensor mean;            ///< [B, key heads, group, queries, 1]: the sum of of_out times out
  at::Tensor of_queries;      ///< as queries, in the statistics' dtype: is added to
};

/// Adds to the queries' gradients what this block gives them, and to the block's, [2, B, key heads, keys, dim] in the
/// statistics' dtype, what these queries give it. Computes scores again (Dao et al. 2022, "FlashAttention").
void add_gradients(const QueryGradients& gradients, const at::Tensor& of_block, const at::Tensor& queries,
                   const at::Tensor& block, const std::vector<Tile>& tiles, const ScoreRules& rules);

/// The dtype of softmax's statistics and of all sums over keys and ranks.
at::ScalarType statistics_type(const at::Tensor& x);

}  // namespace context_parallel
