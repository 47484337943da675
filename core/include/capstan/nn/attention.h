#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/layers.h>
#include <capstan/nn/rotary.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Causal self-attention's core on q, k, v [B, heads, S, head dim] (k and v may have fewer heads: grouped query).
/// Without dropout the fused kernel runs; with dropout on the probabilities the plain one. With a cache, k and v
/// are stored under `layer` and, once it is filled, queries see all positions up to their own.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Dropout& dropout,
                            const Batch& batch, KVCache* cache, std::size_t layer);

/// Attention with linear biases (Press et al. 2021): slope · key position is added to each head's scores. Softmax does
/// not see what is added to a whole row, so the query's own position is not needed.
class Alibi {
 public:
  /// Slopes by the paper's rule for any number of heads, computed as BLOOM does: in float32, except for float64.
  explicit Alibi(std::int64_t heads);
  /// As causal_attention. On CPU and with dropout the bias is added to the scores; else keys carry it as extra columns
  /// (with_bias_columns), so that the plain causal kernel runs.
  at::Tensor attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Dropout& dropout,
                       const Batch& batch, KVCache* cache, std::size_t layer) const;
  /// Where a strategy leaves a rank some of the heads: the slopes of all heads [heads] -> those of its own.
  Slot<at::Tensor(const at::Tensor&)> own_heads;

 private:
  at::Tensor slopes(const at::Tensor& like) const;
  at::Tensor single_;
  at::Tensor exact_;
  mutable at::Tensor on_device_;  // of the last call's dtype and device: a copy in each layer would cost more than it
};

/// q and k, each [B, heads, S, dim], widened to dim + 3 columns rounded up to a multiple of 8, so that scale · q'k' =
/// scale · qk + bias[.., key]: q' = [q, 1, 1, 1, 0 …], k' = [k, high, middle, low, 0 …] with bias / scale as the sum of
/// three numbers of k's dtype (three of bfloat16 hold all of a float32). `bias` [B, heads, S], float32 or float64.
struct WidenedHeads {
  at::Tensor q;
  at::Tensor k;
};
WidenedHeads with_bias_columns(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias, double scale);

/// Grouped-query attention with rotary positions, as in Llama: one product for q, k and v (a fused group of records,
/// [heads·dim + 2·kv_heads·dim, hidden]), rotation, causal attention, output product.
class RotaryAttention {
 public:
  struct Heads {
    std::int64_t queries = 0;
    std::int64_t keys = 0;  ///< divides queries
    std::int64_t dim = 0;   ///< even
  };
  RotaryAttention(const Heads& heads, Rotary rotary, Linear qkv, Linear projection, Dropout dropout, std::size_t layer);
  /// x [B, S, hidden] -> [B, S, hidden].
  at::Tensor forward(const at::Tensor& x, const Batch& batch, KVCache* cache) const;

  Linear& qkv() { return qkv_; }
  Linear& projection() { return projection_; }
  Dropout& dropout() { return dropout_; }
  /// Of the whole layer.
  const Heads& heads() const { return heads_; }

 private:
  Heads own_heads(std::int64_t features) const;
  Heads heads_;
  Rotary rotary_;
  Linear qkv_;
  Linear projection_;
  Dropout dropout_;
  std::size_t layer_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
