#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/strategy.h>

#include <cstddef>
#include <cstdint>

namespace lora {

/// One of a unit's adapters, as a layer's slot calls it: what it adds to the frozen product on this rank.
struct Beside {
  capstan::nn::Unit* unit = nullptr;
  std::size_t index = 0;  ///< among the unit's adapters
  capstan::layout::Mesh mesh;
  int rank = 0;

  /// y + scale · (dropout(x) A^T) B^T in y's memory; x [..., in], y [..., out] of this rank's features.
  at::Tensor add_to(const at::Tensor& y, const at::Tensor& x) const;
  /// The same where rows [R, in] are sorted by expert; `ends` as for ops::grouped_linear.
  at::Tensor add_to_grouped(const at::Tensor& y, const at::Tensor& rows, const at::Tensor& ends) const;

 private:
  const capstan::nn::Adapter& adapter() const { return unit->adapters()[index]; }
  at::Tensor dropped(const at::Tensor& x) const;
  // Elements of a record of the base that lie in one column of this rank: output features.
  std::int64_t features(const capstan::layout::Param& record) const;
};

}  // namespace lora
