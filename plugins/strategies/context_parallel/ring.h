#pragma once
#include <capstan/comm/group.h>
#include <capstan/nn/attention.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "tiles.h"

namespace context_parallel {

/// What the ranks of a ring agree on, for one attention.
struct RingCall {
  std::shared_ptr<capstan::comm::Group> group;
  std::string layer;                                           ///< what labels of transfers end with
  std::vector<std::vector<capstan::nn::ColumnRange>> columns;  ///< those of each rank
  ScoreRules rules;
  std::int64_t longest_tile =
      1024;  ///< queries, and keys, whose scores are in memory at once, where no kernel is fused
};

/// Attention of this rank's queries [B, heads, S, dim] to all ranks' keys and values, k and v [B, key heads, S, dim] of
/// this rank's columns, all of one dtype. Ring attention (Liu et al. 2023, "Ring Attention with Blockwise
/// Transformers"): each rank's keys and values go around the ranks, and the next block arrives while one is computed
/// with. Differentiable: in backward blocks go around again, and their gradients with them, until they are home. A rank
/// may have no columns: it passes on what the others have. All ranks of the group, two or more, call it.
at::Tensor ring_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const RingCall& call);

/// The row of attention's table for columns that ranks share: each rank keeps its queries, and besides its own keys and
/// values has at most two blocks. It gives no softmax's sums, and takes no dropout.
class Ring {
 public:
  Ring(std::shared_ptr<capstan::comm::Group> group, std::string layer);
  /// What makes it a row of the table.
  capstan::nn::AttentionRow row() const;
  /// What a call is on the ring.
  RingCall call(const capstan::nn::AttentionCall& attention) const;

 private:
  std::shared_ptr<capstan::comm::Group> group_;
  std::string layer_;
};

}  // namespace context_parallel
