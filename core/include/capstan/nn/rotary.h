#pragma once
#include <capstan/base/export.h>
#include <capstan/ops/rotary.h>

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// How rotary frequencies are stretched for sequences longer than those that a model was first trained on.
struct RotaryScaling {
  enum class Kind {
    none,
    linear,  ///< every frequency divided by `factor` (Chen et al. 2023)
    llama3,  ///< long wavelengths divided by `factor`, short ones kept, those between blended (Llama 3.1)
    yarn     ///< the same by how often they turn in original_length (Peng et al. 2023); see score_factor()
  };
  Kind kind = Kind::none;
  double factor = 8;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  std::int64_t original_length = 8192;
  double fast_turns = 32;                  ///< yarn: kept where a wavelength turns at least this often
  double slow_turns = 1;                   ///< yarn: divided where at most this often
  std::optional<double> attention_factor;  ///< yarn: multiplies q and k; 0.1 ln(factor) + 1 when not set

  /// What q k is multiplied by besides AttentionSpec::scale: yarn's attention factor squared, else 1.
  double score_factor() const;
};

/// Rotary position embedding of heads: frequency i of dim / 2 is theta^(-2 i / dim), scaled. As transformers does, the
/// frequencies are computed in float32, except for float64 tensors.
class Rotary {
 public:
  Rotary(std::int64_t dim, double theta, const RotaryScaling& scaling);
  /// x [B, S, heads, dim], positions [B, S] int64 -> [B, S, heads, dim], contiguous. See ops::rotary.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& positions) const;
  /// The heads of a fused projection [B, S, heads, dim], turned in its memory. See ops::rotary_heads_.
  ops::RotaryHeads forward_fused_(const at::Tensor& fused, std::int64_t queries, std::int64_t keys,
                                  const at::Tensor& positions) const;
  /// As ops::rotary takes them, for numbers of this type.
  const std::vector<double>& frequencies(at::ScalarType type) const { return type == at::kDouble ? exact_ : single_; }

 private:
  std::vector<double> single_;
  std::vector<double> exact_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
