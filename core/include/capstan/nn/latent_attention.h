#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/attention.h>
#include <capstan/nn/layers.h>
#include <capstan/nn/rotary.h>

#include <cstddef>
#include <cstdint>
#include <optional>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2"; transformers' DeepseekV3Attention): a narrow product
/// makes a latent of keys and values and the part of the keys that turns, which all heads share; a wide one makes each
/// head's keys and values of the normed latent. Queries come from a latent too, or from the states. The last numbers
/// of a query and of a key turn, the others stay. A cache has each head's keys and values.
class LatentAttention : public AttentionCore {
 public:
  struct Kind {
    AttentionSpec spec;  ///< as many key heads as query heads; dim counts the numbers that turn too
    Rotary rotary;       ///< of the numbers that turn
    std::int64_t turned = 0;
    double turned_factor = 1;  ///< multiplies what has turned, of queries and keys
    double dropout = 0;
    double norm_epsilon = 1e-6;
    std::size_t layer = 0;  ///< its entry in the cache
  };
  struct Weights {
    /// Rows [query latent, hidden], the norm of it [query latent]; or null: query_up reads the states.
    LinearWeights query_down;
    WeightPtr query_norm;
    LinearWeights query_up;    ///< [heads · dim, query latent or hidden]
    LinearWeights keys_down;   ///< [key latent + turned, hidden]
    WeightPtr keys_norm;       ///< [key latent]
    LinearWeights keys_up;     ///< [heads · (dim - turned + value dim), key latent]: a head's keys, then its values
    LinearWeights projection;  ///< [hidden, heads · value dim]
  };
  LatentAttention(Layer& parent, Kind kind, Weights weights);
  ~LatentAttention() override;
  at::Tensor forward(const at::Tensor& x, const Batch& batch, KVCache* cache) const override;

  /// Where ranks share heads or positions: on the part of this rank's keys that turns [B, S, turned], which all heads
  /// read, as Linear::before of the products that make heads. Called in every forward.
  CommPort shared_keys{*this, "shared_keys"};

 private:
  at::Tensor queries(const at::Tensor& x, const Batch& batch) const;
  at::Tensor turned(const at::Tensor& heads, const Batch& batch) const;
  Kind kind_;
  std::optional<Linear> query_down_;
  std::optional<RmsNorm> query_norm_;
  Linear query_up_;
  Linear keys_down_;
  RmsNorm keys_norm_;
  Linear keys_up_;
  Linear projection_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
