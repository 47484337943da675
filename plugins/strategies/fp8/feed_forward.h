#pragma once
#include <memory>
#include <optional>

#include "multiplier.h"

namespace fp8 {

/// A frozen feed-forward layer: both products and the gated SiLU between them, whose result and gradient become 8 bits
/// where they are made and are not in memory otherwise. The numbers are those of the parts in turn.
struct FeedForward {
  std::shared_ptr<const Multiplier> up, down;

  /// Neither weight is trained, and this rank has all of both.
  static bool takes(const Multiplier& up, const Multiplier& down);
  /// x [..., in], W of gate and up [2 ff, in], W of down [out, ff] -> [..., out]. Of experts: x [R, in] and stacks [E,
  /// ...], `ends` as in Multiplier::multiply_grouped; else none.
  at::Tensor multiply(const at::Tensor& x, const at::Tensor& w_up, const at::Tensor& w_down,
                      const std::optional<at::Tensor>& ends = {}) const;
};

}  // namespace fp8
