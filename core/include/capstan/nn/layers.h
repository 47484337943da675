#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/layer.h>
#include <capstan/nn/weight.h>
#include <capstan/ops/random.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// How a layer may be split over ranks by a placement strategy; what it declares, not what is done.
enum class WeightSplit {
  none,
  columns,     ///< output features: each rank computes some of them
  rows,        ///< input features: outputs are partial sums
  vocabulary,  ///< rows of an embedding or head
};

/// y = x W^T + b on logical shapes: W [out, in], b [out] or absent. Features may have several dimensions in the records
/// (BLOOM's QKV: W [head, 3, dim, in], b [head, 3, dim]); y has them as one.
class Linear : public Layer {
 public:
  Linear(Layer& parent, std::string name, WeightSplit may_split, WeightPtr weight, WeightPtr bias);
  ~Linear() override;
  at::Tensor forward(const at::Tensor& x) const;

  WeightSplit may_split() const { return may_split_; }
  const WeightPtr& weight() const { return weight_; }
  const WeightPtr& bias() const { return bias_; }

  /// On x. Called in every forward, also where an Mlp's products are one port's.
  CommPort before{*this, "before"};
  /// On x W^T, with what an adapter adds, before the bias. Called as `before` is.
  CommPort after{*this, "after"};
  /// Takes the place of the product itself, to multiply in another number format: (x [..., in], W [out, in]) ->
  /// x W^T, in memory of its own. Called in every forward, but for an Mlp's whose products are one port's.
  Port<at::Tensor(const at::Tensor&, const at::Tensor&)> multiply{*this, "multiply"};
  /// An adapter: (x, x W^T) -> what replaces x W^T. Called in every forward.
  Port<at::Tensor(const at::Tensor&, const at::Tensor&)> adapter{*this, "adapter"};

 private:
  WeightSplit may_split_;
  WeightPtr weight_;
  WeightPtr bias_;
};

/// What a Linear is made of where the layer above makes it. No bias: null.
struct LinearWeights {
  WeightPtr weight;
  WeightPtr bias;
};

/// Rows of a table: [B, S] int64 -> [B, S, features]. `real` [B, S] bool: nothing depends on the rows of others, which
/// are padding; undefined: all are.
class Embedding : public Layer {
 public:
  Embedding(Layer& parent, std::string name, WeightSplit may_split, WeightPtr weight);
  ~Embedding() override;
  at::Tensor forward(const at::Tensor& ids, const at::Tensor& real = {}) const;
  WeightSplit may_split() const { return may_split_; }
  const WeightPtr& weight() const { return weight_; }
  /// Replaces the look-up where the table is split: (table, ids) -> rows. Called in every forward.
  Port<at::Tensor(const at::Tensor&, const at::Tensor&)> lookup{*this, "lookup"};

 private:
  WeightSplit may_split_;
  WeightPtr weight_;
};

/// A residual stream and its norm, which a layer reads.
struct SumAndNorm {
  at::Tensor sum;
  at::Tensor normed;
};

/// Layer normalisation over the last dimension (Ba et al. 2016).
class LayerNorm : public Layer {
 public:
  LayerNorm(Layer& parent, std::string name, WeightPtr weight, WeightPtr bias, double epsilon);
  ~LayerNorm() override;
  at::Tensor forward(const at::Tensor& x) const;
  /// {x + y, its norm}; y undefined: {x, its norm}. On a GPU in one pass, as is the sum of both gradients.
  SumAndNorm forward_sum(const at::Tensor& x, const at::Tensor& y) const;

 private:
  WeightPtr weight_;
  WeightPtr bias_;
  double epsilon_;
};

/// x / sqrt(mean(x²) + epsilon) · weight over the last dimension (Zhang and Sennrich 2019).
class RmsNorm : public Layer {
 public:
  /// What stands for its weight in the product.
  enum class Factor {
    weight,
    one_plus_weight  ///< 1 + weight, added in float32 (float64 for float64) (Gemma)
  };
  /// `use`: states; heads, where it acts on each attention head; split, where it acts on the features of all heads,
  /// some of which each rank then has.
  RmsNorm(Layer& parent, std::string name, WeightPtr weight, double epsilon, Use use = Use::states,
          Factor factor = Factor::weight);
  ~RmsNorm() override;
  at::Tensor forward(const at::Tensor& x) const;
  /// As LayerNorm's.
  SumAndNorm forward_sum(const at::Tensor& x, const at::Tensor& y) const;

  Use use() const { return owned().front().use; }
  Factor factor() const { return factor_; }
  const WeightPtr& weight() const { return weight_; }
  /// Where the features are split: mean(x²) of this rank's [..., 1] -> of all ranks'. Called in every forward.
  CommPort mean_square{*this, "mean_square"};

 private:
  WeightPtr weight_;
  double epsilon_;
  Factor factor_;
};

/// What stands between the two products of a feed-forward layer.
enum class Activation { silu, gelu, gelu_tanh };
/// Takes each element, in x's dtype.
at::Tensor activated(Activation activation, const at::Tensor& x);

/// down(activation(up(x))), or gated, down(activation(gate(x)) · up(x)), gate and up being one product of a fused group
/// of two records [ff, hidden]. The products are named linear_fc1 and linear_fc2.
class Mlp : public Layer {
 public:
  struct Kind {
    Activation activation = Activation::silu;
    bool gated = true;
  };
  Mlp(Layer& parent, Kind kind, LinearWeights up, LinearWeights down);
  ~Mlp() override;
  /// [..., hidden] -> [..., hidden].
  at::Tensor forward(const at::Tensor& x) const;

  const Linear& up() const { return up_; }
  const Linear& down() const { return down_; }

  /// Takes the place of both products and the gated SiLU between them. Called in each forward where nothing else is
  /// there (biases, adapters, communication): (x [..., hidden], W of gate and up [2 ff, hidden], W of down [hidden,
  /// ff]) -> [..., hidden].
  Port<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)> products{*this, "products"};

 private:
  bool is_products_alone() const;
  Kind kind_;
  Linear up_;
  Linear down_;
};

/// ops::dropout of x [B, n, ...], which is columns `first` to `first` + n of what the batch has, with masks that are
/// each sample's own, wherever packing has put it and whichever rank has its columns. `key`: seed, step and sample ids
/// are the batch's; row_shape and row_offset are those of one column, or both empty.
at::Tensor drop_columns(const at::Tensor& x, double probability, ops::DropoutKey key, const Batch& batch,
                        std::int64_t first = 0);

/// Dropout whose mask depends only on (seed, step, site, sample, element): the same on any layout.
class Dropout : public Layer {
 public:
  Dropout(Layer& parent, const std::string& site, double probability);
  ~Dropout() override;
  at::Tensor forward(const at::Tensor& x, const Batch& batch) const;
  /// The same for attention probabilities [B, heads, S, S]: an element is a (head, query, key), however far rows are
  /// padded.
  at::Tensor on_attention(const at::Tensor& probabilities, const Batch& batch) const;
  double probability() const { return probability_; }

  /// Where a strategy leaves a rank some of the positions: how many are here -> the first one's place in the sequence.
  /// Called in training where the probability is not 0, but not for attention's probabilities.
  Port<std::int64_t(std::int64_t)> first_position{*this, "first_position"};
  /// The same for attention heads: how many are here -> which of all ranks' heads. Called in training for attention's
  /// probabilities, where that of their dropout is not 0.
  using HeadRange = nn::HeadRange;
  Port<HeadRange(std::int64_t)> own_heads{*this, "own_heads"};

 private:
  std::uint64_t site_;
  double probability_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
