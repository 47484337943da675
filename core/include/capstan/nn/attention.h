#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/attention_spec.h>
#include <capstan/nn/attention_table.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/layers.h>
#include <capstan/nn/rotary.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Causal self-attention's core on q, k, v [B, heads, S, head dim] (k and v may have fewer heads: grouped query) by the
/// rows of core's table, for specs without linear biases and sinks. With a cache, k and v are stored under `layer` and,
/// once it is filled, queries see all positions up to their own. Where ranks share columns (Batch::part), q has this
/// rank's and k and v have all, without dropout. What has slopes or sinks calls nn::attend.
at::Tensor causal_attention(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Dropout& dropout,
                            const Batch& batch, KVCache* cache, std::size_t layer, const AttentionSpec& spec = {});

/// The slopes of linear biases (AttentionSpec::alibi), which are in no record.
class Alibi : public Layer {
 public:
  /// By the paper's rule for any number of heads, computed as BLOOM does: in float32, except for float64.
  Alibi(Layer& parent, std::int64_t heads);
  ~Alibi() override;
  /// Where a strategy leaves a rank some of the heads: the slopes of all heads [heads] -> those of its own.
  CommPort own_heads{*this, "own_heads"};
  /// The slopes of this rank's heads [heads], on `like`'s device: float32, or float64 if it is.
  at::Tensor slopes(const at::Tensor& like) const;

 private:
  at::Tensor single_;
  at::Tensor exact_;
  mutable at::Tensor on_device_;  // for the last call's dtype and device: a copy in each layer would cost more than it
};

/// What every layer of self-attention is between its products, and what strategies and tables of kernels read of it.
class AttentionCore : public Layer {
 public:
  using Heads = AttentionHeads;
  ~AttentionCore() override;
  /// x [B, S, hidden] -> [B, S, hidden].
  virtual at::Tensor forward(const at::Tensor& x, const Batch& batch, KVCache* cache) const = 0;

  /// q, k, v [B, heads, S, head dim] -> [B, heads, S, value dim], by the table's rows, without communication.
  using Core = std::function<at::Tensor(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Batch&)>;
  /// Where ranks share the columns of rows: called with the core and this rank's columns of q, k and v; it returns
  /// these columns of what the core would give of all. The core takes all columns of some heads, with Batch::whole()
  /// and which heads these are; or this rank's queries and all keys, with the batch itself; or what a row that the
  /// strategy has added to rows() takes.
  Port<at::Tensor(const Core&, const at::Tensor&, const at::Tensor&, const at::Tensor&, const Batch&)> around{*this,
                                                                                                              "around"};
  /// This rank's q, k, v [B, heads, S, head dim] -> [B, heads, S, value dim], `around` them. `fused`: as
  /// AttentionCall's.
  at::Tensor attend(const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, const Batch& batch, KVCache* cache,
                    const at::Tensor& fused = {}) const;

  /// Do all heads read a part of the keys that is made once (DeepSeek V2)? Such a layer calls shared_keys.
  virtual bool shares_keys() const { return false; }
  /// Where ranks share heads or positions: on the part of this rank's keys [B, S, features] that all heads read, as
  /// Linear::before of the products that make heads. Called in every forward.
  CommPort shared_keys{*this, "shared_keys"};

  /// The table that attends.
  AttentionTable& rows() { return rows_; }
  const AttentionTable& rows() const { return rows_; }
  /// A call as the batch's rows of `length` positions would make it, all heads of the layer, with tensors of `like`'s
  /// dtype and device that have no memory of their own: to ask rows before there is any. The batch outlives it.
  virtual AttentionCall planned(const at::Tensor& like, const Batch& batch, std::int64_t length) const;

  const WeightPtr& sinks() const { return sinks_; }
  const AttentionSpec& spec() const { return spec_; }
  /// The whole layer's heads.
  const Heads& heads() const { return spec_.heads; }
  /// Acts on its probabilities.
  const Dropout& dropout() const { return dropout_; }

 protected:
  /// `sinks` [query heads], where the spec has sinks. The dropout's site is "<parent>.attention.dropout"; `layer` is
  /// the entry in the cache.
  AttentionCore(Layer& parent, AttentionSpec spec, double dropout, std::size_t layer, WeightPtr sinks);

 private:
  AttentionSpec spec_;
  std::size_t layer_;
  WeightPtr sinks_;
  std::optional<Alibi> alibi_;
  Dropout dropout_;
  AttentionTable rows_;
};

/// Self-attention with its products: q, k and v in one (linear_qkv, [.., hidden]), norms of q and k where there are
/// any, positions, causal attention, and the output product (linear_proj). Two tables compute what is between the
/// products: one prepares q, k and v, the other attends.
class Attention : public AttentionCore {
 public:
  using Order = HeadOrder;
  struct Kind {
    AttentionSpec spec;
    Order order = Order::by_kind;
    std::optional<Rotary> rotary;
    std::optional<QueryScaling> query_scaling = {};
    /// Each query head has as many features of a gate beside its own in the product: [query, gate] a head. The result
    /// is multiplied by the gate's sigmoid before the output product (Qwen 3.5).
    bool output_gate = false;
    /// The product has no values: they are the keys before norm and rotation (Gemma 4).
    bool keys_are_values = false;
    bool value_norm = false;  ///< v / sqrt(mean(v²) + norm_epsilon) by head, without a weight (Gemma 4)
    RmsNorm::Factor norm_factor = RmsNorm::Factor::weight;  ///< the norms' of q and k
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
    WeightPtr sinks = nullptr;  ///< [query heads], where the spec has sinks
  };
  Attention(Layer& parent, Kind kind, Weights weights);
  ~Attention() override;
  at::Tensor forward(const at::Tensor& x, const Batch& batch, KVCache* cache) const override;

  /// The table that prepares q, k and v.
  HeadsTable& preparation() { return preparation_; }
  const HeadsTable& preparation() const { return preparation_; }
  /// What preparation() is called with for a product of this rank's [B, S, features].
  HeadsCall heads_call(const at::Tensor& fused, const Batch& batch) const;
  AttentionCall planned(const at::Tensor& like, const Batch& batch, std::int64_t length) const override;

  Linear& qkv() { return qkv_; }
  Linear& projection() { return projection_; }
  /// Null: it has none.
  RmsNorm* query_norm() { return query_norm_ ? &*query_norm_ : nullptr; }
  RmsNorm* key_norm() { return key_norm_ ? &*key_norm_ : nullptr; }

 private:
  bool is_product() const;
  Kind kind_;
  Linear qkv_;
  Linear projection_;
  std::optional<RmsNorm> query_norm_;
  std::optional<RmsNorm> key_norm_;
  HeadsTable preparation_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
