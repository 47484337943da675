#pragma once
#include <capstan/decoder/decoder.h>
#include <capstan/nn/recurrence.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace qwen3_5 {

/// Sizes of the layers that mix tokens by the gated delta rule.
struct DeltaSizes {
  std::int64_t hidden = 0;
  std::int64_t key_heads = 0;
  std::int64_t value_heads = 0;  ///< a multiple of key_heads
  std::int64_t key_dim = 0;
  std::int64_t value_dim = 0;
  std::int64_t kernel = 0;  ///< tokens that the convolution sees
  double norm_epsilon = 0;
  double init_std = 0;
  bool by_head = false;  ///< products have key head after key head: of each q, k, its values' v, z; and their b, a
};

/// A layer of Yang et al. 2024 ("Gated Delta Networks") as transformers' Qwen3_5GatedDeltaNet is: q, k and v of a
/// product go through a causal convolution of each channel with SiLU, then through gated_delta_rule() with decay =
/// -exp(A_log) · softplus(a + dt_bias) and beta = sigmoid(b), then through an RMS norm by head times silu(z) and the
/// output product. Products: linear_qkvz and linear_ba, whose modules are in_proj_qkv, in_proj_z, in_proj_b and
/// in_proj_a, or by head in_proj_qkvz and in_proj_ba (Qwen 3 Next), and linear_proj. In generation it keeps the
/// convolution's last inputs and the states of each row.
class GatedDeltaNet : public capstan::decoder::TokenMixer, public capstan::nn::Recurrence {
 public:
  /// `records`: what the names of its records begin with ("model.layers.0."); `entry`: its own in the cache.
  GatedDeltaNet(capstan::nn::Layer& parent, const DeltaSizes& sizes, const std::string& records, std::size_t entry);
  ~GatedDeltaNet() override;
  at::Tensor forward(const at::Tensor& x, const capstan::nn::Batch& batch, capstan::nn::KVCache* cache) const override;
  std::int64_t heads() const override { return sizes_.key_heads; }
  /// Reading the state, writing it and the result: three products [key dim, value dim] a head.
  double more_flops_per_token() const override {
    return 6.0 * static_cast<double>(sizes_.value_heads * sizes_.key_dim * sizes_.value_dim);
  }

  /// Where its records are in files: q, k and v side by side in one tensor, in the product and in the convolution.
  static void describe_files(const DeltaSizes& sizes, const std::string& records, capstan::layout::FileMap& map);

 private:
  struct Inputs;
  struct Products;
  Products products_of(const at::Tensor& x) const;
  Inputs inputs_of(const at::Tensor& x) const;
  at::Tensor mixed(const Inputs& in, const capstan::nn::Batch& batch, capstan::nn::KVCache* cache) const;
  at::Tensor prompted(Inputs in, const at::Tensor& last, capstan::nn::KVCache& cache) const;
  at::Tensor continued(const Inputs& in, capstan::nn::KVCache& cache) const;

  DeltaSizes sizes_;
  std::size_t entry_;
  capstan::nn::Linear qkvz_;
  capstan::nn::Linear ba_;
  capstan::nn::WeightPtr convolution_;
  capstan::nn::WeightPtr bias_;
  capstan::nn::WeightPtr rate_;
  capstan::nn::RmsNorm norm_;
  capstan::nn::Linear projection_;
};

}  // namespace qwen3_5
