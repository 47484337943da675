#pragma once
#include <capstan/nn/attention.h>
#include <capstan/strategy_parts/collectives.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace context_parallel {

/// Can `ranks` ranks have some of the heads each? Query heads are divided evenly. Key heads too; where they are fewer
/// than ranks, each goes to as many ranks.
bool divides_heads(std::int64_t queries, std::int64_t keys, std::int64_t ranks);

/// What an attention layer's port `around` is filled with: q, k and v [B, heads, this rank's columns, dim] -> as many
/// columns of the result. All are differentiable, and every rank of the group makes the same calls.

/// Each rank gets all columns of some heads and sends their results back: two all-to-alls. All of the core is then as
/// on one rank, with packed rows, windows, biases and dropout.
class Ulysses {
 public:
  /// The label names the layer.
  Ulysses(const std::shared_ptr<capstan::comm::Group>& group, const std::string& layer);
  at::Tensor operator()(const capstan::nn::AttentionCore::Core& core, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const capstan::nn::Batch& batch) const;

 private:
  int ranks_;
  int rank_;
  capstan::ops::AllToAllRows to_heads_;
  capstan::ops::AllToAllRows to_columns_;
};

/// Each rank keeps its queries and gets all keys and values; backward sums what the ranks add to their gradients. The
/// core takes masks, of a range of this rank's columns and all columns up to its end. Dropout on probabilities is keyed
/// by whole rows: where it acts, every rank computes all queries, with zeros in place of those that it has not.
class Gather {
 public:
  Gather(const std::shared_ptr<capstan::comm::Group>& group, const std::string& layer, double dropout);
  at::Tensor operator()(const capstan::nn::AttentionCore::Core& core, const at::Tensor& q, const at::Tensor& k,
                        const at::Tensor& v, const capstan::nn::Batch& batch) const;

 private:
  int ranks_;
  double dropout_;
  capstan::ops::AllToAllRows to_all_;
};

}  // namespace context_parallel
