#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/layers.h>
#include <capstan/nn/rotary.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// What attention does to its scores besides the causal mask.
struct AttentionScores {
  std::optional<double> scale;         ///< factor of q k; 1 / sqrt(head dim) when not set
  std::optional<std::int64_t> window;  ///< a token sees this many positions, its own included; all when not set
};

/// Causal self-attention's core on q, k, v [B, heads, S, head dim] (k and v may have fewer heads: grouped query).
/// Without dropout the fused kernel runs, with dropout on the probabilities the plain one. With a cache, k and v
/// are stored under `layer` and, once it is filled, queries see all positions up to their own. Packed samples attend to
/// themselves: where they stand by ops::segment_attention if the device, the dtype and the heads allow, else apart.
/// Where ranks share columns (Batch::part), q has this rank's and k and v have all, by a mask and without dropout.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Dropout& dropout,
                            const Batch& batch, KVCache* cache, std::size_t layer, const AttentionScores& scores = {});

/// Attention with linear biases (Press et al. 2021): slope · key position is added to each head's scores. Softmax does
/// not see what is added to a whole row, so the query's own position is not needed.
class Alibi : public Layer {
 public:
  /// Slopes by the paper's rule for any number of heads, computed as BLOOM does: in float32, except for float64.
  Alibi(Layer& parent, std::int64_t heads);
  ~Alibi() override;
  /// As causal_attention, with slopes of the batch's `heads`. On CPU and with dropout the bias is added to the scores;
  /// else keys carry it as extra columns, so that the plain causal kernel runs.
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Dropout& dropout,
                       const Batch& batch, KVCache* cache, std::size_t layer) const;
  /// What a model brings in its place for a whole projection [B, S, heads · 3 · dim], contiguous, the first head's q, k
  /// and v, then the second's, …, where there is no dropout and ranks share no columns. It returns
  /// [B, heads, S, dim]; nothing: attention() runs. Packed samples attend to themselves.
  Port<std::optional<at::Tensor>(const at::Tensor& fused, const Batch& batch)> fused{*this, "fused"};
  /// Where a strategy leaves a rank some of the heads: the slopes of all heads [heads] -> those of its own.
  CommPort own_heads{*this, "own_heads"};
  /// The slopes of this rank's heads [heads], on `like`'s device: float32, or float64 if it is.
  at::Tensor slopes(const at::Tensor& like) const;

 private:
  at::Tensor attention_of_own_columns(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                      const Batch& batch) const;
  at::Tensor single_;
  at::Tensor exact_;
  mutable at::Tensor on_device_;  // for the last call's dtype and device: a copy in each layer would cost more than it
};

/// Self-attention with its products: q, k and v in one (linear_qkv, [.., hidden]), norms of q and k where there are
/// any, positions, causal attention, and the output product (linear_proj).
class Attention : public Layer {
 public:
  struct Heads {
    std::int64_t queries = 0;
    std::int64_t keys = 0;  ///< divides queries
    std::int64_t dim = 0;
  };
  /// How the features of q, k and v lie in their product.
  enum class Order {
    by_kind,  ///< all of q, all of k, all of v
    by_head   ///< the first head's q, k and v, then the second's, … (as many key heads as query heads)
  };
  struct Kind {
    Heads heads;
    Order order = Order::by_kind;
    std::optional<Rotary> rotary;
    bool alibi = false;
    AttentionScores scores;
    double dropout = 0;
    double norm_epsilon = 0;
    std::size_t layer = 0;  ///< its entry in the cache
  };
  struct Weights {
    LinearWeights qkv;
    LinearWeights projection;
    /// RMS norms of q and k before their positions: null, or of a head [dim], or of all heads' features [heads · dim].
    WeightPtr query_norm;
    WeightPtr key_norm;
  };
  /// The dropout's site is "<parent>.attention.dropout".
  Attention(Layer& parent, Kind kind, Weights weights);
  ~Attention() override;
  /// x [B, S, hidden] -> [B, S, hidden].
  at::Tensor forward(const at::Tensor& x, const Batch& batch, KVCache* cache) const;

  /// q, k, v [B, heads, S, head dim] -> [B, heads, S, head dim], without communication.
  using Core = std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Batch&)>;
  /// Where ranks share the columns of rows: called with the core and this rank's columns of q, k and v; it returns
  /// these columns of what the core would give of all. The core takes either all columns of some heads, with
  /// Batch::whole() and which heads these are, or this rank's queries and all keys, with the batch itself. What
  /// computes without it reads scores() and alibi().
  Port<at::Tensor(const Core&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const Batch&)> around{*this,
                                                                                                              "around"};
  /// In a unit that runs twice: runs the kernels that make of q, k and v what attention gives, with what both runs
  /// share.
  Port<at::Tensor(const std::function<at::Tensor()>& kernels, RecomputeContext&)> around_kernels{*this, "kernels"};
  /// Where features lie by kind, asked with this rank's product [B, S, queries + 2 keys, dim] and which heads it has:
  /// q, k and v [B, S, heads, dim] of it, as norms and positions make them; nothing: they do.
  Port<std::optional<ops::RotaryHeads>(const at::Tensor&, const Heads&, const Batch&)> place{*this, "place"};

  Linear& qkv() { return qkv_; }
  Linear& projection() { return projection_; }
  /// Null: it has none.
  RmsNorm* query_norm() { return query_norm_ ? &*query_norm_ : nullptr; }
  RmsNorm* key_norm() { return key_norm_ ? &*key_norm_ : nullptr; }
  /// The whole layer's heads.
  const Heads& heads() const { return kind_.heads; }
  /// Acts on its probabilities.
  const Dropout& dropout() const { return dropout_; }
  /// Holds where there are no linear biases.
  const AttentionScores& scores() const { return kind_.scores; }
  /// Null: it has no linear biases.
  const Alibi* alibi() const { return alibi_ ? &*alibi_ : nullptr; }

 private:
  Heads own_heads(std::int64_t features) const;
  ops::RotaryHeads parts(const at::Tensor& fused, const Batch& batch) const;
  bool takes_fused(const Batch& batch) const;
  at::Tensor attend(const at::Tensor& fused, const Batch& batch, KVCache* cache) const;
  at::Tensor placed(const std::optional<RmsNorm>& norm, const at::Tensor& heads, const Batch& batch) const;
  Kind kind_;
  Linear qkv_;
  Linear projection_;
  std::optional<RmsNorm> query_norm_;
  std::optional<RmsNorm> key_norm_;
  std::optional<Alibi> alibi_;
  Dropout dropout_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
