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
    linear,   ///< every frequency divided by `factor` (Chen et al. 2023)
    llama3,   ///< long wavelengths divided by `factor`, short ones kept, those between blended (Llama 3.1)
    yarn,     ///< the same by how often they turn in original_length (Peng et al. 2023); see score_factor()
    longrope  ///< each divided by its own of `divisors` (Ding et al. 2024); see score_factor()
  };
  Kind kind = Kind::none;
  double factor = 8;
  double low_frequency_factor = 1;
  double high_frequency_factor = 4;
  std::int64_t original_length = 8192;
  double fast_turns = 32;             ///< yarn: kept where a wavelength turns at least this often
  double slow_turns = 1;              ///< yarn: divided where at most this often
  bool whole_limits = true;           ///< yarn: the first and last blended frequency are rounded to whole ones
  std::vector<double> divisors = {};  ///< longrope: one for each frequency
  /// Multiplies q and k. When not set: for yarn 0.1 ln(factor) + 1, for longrope sqrt(1 + ln(factor) /
  /// ln(original_length)).
  std::optional<double> attention_factor;

  /// What q k is multiplied by besides AttentionSpec::scale: the attention factor of yarn and longrope squared, else 1.
  /// Where a part of each head turns, only q and k of that part are multiplied, by Rotary.
  double score_factor() const;
};

/// Says which numbers of a head turn, and together with which.
struct RotaryForm {
  std::int64_t turned = 0;   ///< this number of a head's first ones; 0: all. The others stay as they are
  bool interleaved = false;  ///< number 2 i turns with 2 i + 1, instead of i with i + turned / 2
  /// The frequencies are those of a head that turns as a whole: number i turns with i + dim / 2 by the first turned / 2
  /// of them, and the others stand still (Gemma 4's "proportional"). Else those of a head with `turned` numbers.
  bool of_whole_head = false;
};

/// Rotary position embedding of heads: frequency i of dim / 2 is theta^(-2 i / dim), scaled; dim is the head's, or that
/// of the part of it that turns. As transformers does, the frequencies are computed in float32, except for float64
/// tensors.
class Rotary {
 public:
  Rotary(std::int64_t dim, double theta, const RotaryScaling& scaling, const RotaryForm& form = {});
  const RotaryForm& form() const { return form_; }
  /// Whether all of a head turns, in halves: what forward_fused_ can do.
  bool is_plain() const { return form_.turned == 0 && !form_.interleaved && part_factor_ == 1; }
  /// x [B, S, heads, dim], positions [B, S] int64 -> [B, S, heads, dim], contiguous. See ops::rotary.
  at::Tensor forward(const at::Tensor& x, const at::Tensor& positions) const;
  /// The heads of a fused projection [B, S, heads, dim], turned in its memory. See ops::rotary_heads_.
  ops::RotaryHeads forward_fused_(const at::Tensor& fused, std::int64_t queries, std::int64_t keys,
                                  const at::Tensor& positions) const;
  /// As ops::rotary takes them, for numbers of this type.
  const std::vector<double>& frequencies(at::ScalarType type) const { return type == at::kDouble ? exact_ : single_; }

 private:
  RotaryForm form_;
  double part_factor_ = 1;  // what the part that turns is multiplied by, where other parts are not
  std::vector<double> single_;
  std::vector<double> exact_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
