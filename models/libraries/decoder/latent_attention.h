#pragma once
#include <capstan/nn/attention.h>
#include <capstan/nn/layers.h>
#include <capstan/nn/rotary.h>

#include <cstddef>
#include <cstdint>
#include <optional>

namespace capstan::decoder {

/// Multi-head latent attention (DeepSeek-AI 2024, "DeepSeek-V2"; transformers' DeepseekV3Attention): a narrow product
/// makes a latent of keys and values and the part of the keys that turns, which all heads share; a wide one makes each
/// head's keys and values of the normed latent. Queries come from a latent too, or from the states. The last numbers
/// of a query and of a key turn, the others stay. A cache has each head's keys and values.
class LatentAttention : public nn::AttentionCore {
 public:
  struct Kind {
    nn::AttentionSpec spec;  ///< as many key heads as query heads; dim counts the numbers that turn too
    nn::Rotary rotary;       ///< of the numbers that turn
    std::int64_t turned = 0;
    double turned_factor = 1;  ///< multiplies what has turned, of queries and keys
    double dropout = 0;
    double norm_epsilon = 1e-6;
    std::size_t layer = 0;  ///< its entry in the cache
  };
  struct Weights {
    /// Rows [query latent, hidden], the norm of it [query latent]; or null: query_up reads the states.
    nn::LinearWeights query_down;
    nn::WeightPtr query_norm;
    nn::LinearWeights query_up;   ///< [heads · dim, query latent or hidden]
    nn::LinearWeights keys_down;  ///< [key latent + turned, hidden]
    nn::WeightPtr keys_norm;      ///< [key latent]
    nn::LinearWeights keys_up;    ///< [heads · (dim - turned + value dim), key latent]: a head's keys, then its values
    nn::LinearWeights projection;  ///< [hidden, heads · value dim]
  };
  LatentAttention(nn::Layer& parent, Kind kind, Weights weights);
  ~LatentAttention() override;
  at::Tensor forward(const at::Tensor& x, const nn::Batch& batch, nn::KVCache* cache) const override;
  bool shares_keys() const override { return true; }

 private:
  at::Tensor queries(const at::Tensor& x, const nn::Batch& batch) const;
  at::Tensor turned(const at::Tensor& heads, const nn::Batch& batch) const;
  Kind kind_;
  std::optional<nn::Linear> query_down_;
  std::optional<nn::RmsNorm> query_norm_;
  nn::Linear query_up_;
  nn::Linear keys_down_;
  nn::RmsNorm keys_norm_;
  nn::Linear keys_up_;
  nn::Linear projection_;
};

}  // namespace capstan::decoder
