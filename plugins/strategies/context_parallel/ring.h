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

/// Fills an attention layer's port `around`: each rank keeps its queries, and besides its own keys and values has at
/// most two blocks. It computes without the layer's core, which does not return its softmax's sums, and without
/// dropout.
class Ring {
 public:
  /// The attention layer outlives it.
  Ring(std::shared_ptr<capstan::comm::Group> group, std::string layer, const capstan::nn::Attention& attention);
  /// The call of q [B, heads, S, dim], this rank's columns of a batch.
  RingCall call(const at::Tensor& q, const capstan::nn::Batch& batch) const;
  at::Tensor operator()(const capstan::nn::Attention::Core& core, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const capstan::nn::Batch& batch) const;

 private:
  std::shared_ptr<capstan::comm::Group> group_;
  std::string layer_;
  const capstan::nn::Attention* attention_;
};

}  // namespace context_parallel
