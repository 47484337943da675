#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/slot.h>
#include <capstan/nn/weight.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// How a layer may be split over ranks by a placement strategy; what it declares, not what is done.
enum class Split {
  none,
  columns,     ///< output features: each rank computes some of them
  rows,        ///< input features: outputs are partial sums
  vocabulary,  ///< rows of an embedding or head
};

/// y = x W^T + b on logical shapes: W [out, in], b [out] or absent. Features may have several dimensions in the records
/// (BLOOM's QKV: W [head, 3, dim, in], b [head, 3, dim]); y has them as one.
class Linear {
 public:
  Linear(std::string name, Split may_split, WeightPtr weight, WeightPtr bias);
  at::Tensor forward(const at::Tensor& x) const;

  const std::string& name() const { return name_; }
  Split may_split() const { return may_split_; }
  const WeightPtr& weight() const { return weight_; }
  const WeightPtr& bias() const { return bias_; }

  CommSlot before;  ///< on x
  CommSlot after;   ///< on x W^T, before the bias
  /// Takes the place of `before` and the product where W is trained and no adapter reads what `before` gives, so that
  /// backward can do both at a time: (x, W [out, in], bias [out] or absent) -> what at::linear(before(x), W, bias) is.
  Slot<at::Tensor(const at::Tensor&, const at::Tensor&, const std::optional<at::Tensor>&)> product;
  /// An adapter: (x, x W^T) -> what replaces x W^T.
  Slot<at::Tensor(const at::Tensor&, const at::Tensor&)> adapter;

 private:
  std::string name_;
  Split may_split_;
  WeightPtr weight_;
  WeightPtr bias_;
};

/// Rows of a table: [B, S] int64 -> [B, S, features].
class Embedding {
 public:
  Embedding(std::string name, Split may_split, WeightPtr weight);
  at::Tensor forward(const at::Tensor& ids) const;
  const std::string& name() const { return name_; }
  Split may_split() const { return may_split_; }
  const WeightPtr& weight() const { return weight_; }
  /// Replaces the look-up where the table is split: (table, ids) -> rows.
  Slot<at::Tensor(const at::Tensor&, const at::Tensor&)> lookup;

 private:
  std::string name_;
  Split may_split_;
  WeightPtr weight_;
};

/// Layer normalisation over the last dimension (Ba et al. 2016).
class LayerNorm {
 public:
  LayerNorm(WeightPtr weight, WeightPtr bias, double epsilon);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  WeightPtr weight_;
  WeightPtr bias_;
  double epsilon_;
};

/// x / sqrt(mean(x²) + epsilon) · weight over the last dimension (Zhang and Sennrich 2019).
class RmsNorm {
 public:
  RmsNorm(WeightPtr weight, double epsilon);
  at::Tensor forward(const at::Tensor& x) const;

 private:
  WeightPtr weight_;
  double epsilon_;
};

/// down(silu(gate(x)) · up(x)), gate and up being one product of a fused group of two records [ff, hidden].
class GatedMlp {
 public:
  GatedMlp(Linear gate_up, Linear down);
  /// [..., hidden] -> [..., hidden].
  at::Tensor forward(const at::Tensor& x) const;
  Linear& gate_up() { return gate_up_; }
  Linear& down() { return down_; }

 private:
  Linear gate_up_;
  Linear down_;
};

/// Dropout whose mask depends only on (seed, step, site, sample, element): the same on any layout.
class Dropout {
 public:
  Dropout(const std::string& site, double probability);
  at::Tensor forward(const at::Tensor& x, const Batch& batch) const;
  /// On attention probabilities [B, heads, S, S]: an element is a (head, query, key), however far rows are padded.
  at::Tensor on_attention(const at::Tensor& probabilities, const Batch& batch) const;
  double probability() const { return probability_; }

  /// Where a strategy leaves a rank some of the positions: how many are here -> the first one's place in the sequence.
  Slot<std::int64_t(std::int64_t)> first_position;
  /// The same for attention heads: how many are here -> which.
  struct HeadRange {
    std::int64_t first = 0;
    std::int64_t all = 0;  ///< heads of all ranks
  };
  Slot<HeadRange(std::int64_t)> own_heads;

 private:
  std::uint64_t site_;
  double probability_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
