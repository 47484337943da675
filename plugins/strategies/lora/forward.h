#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/ops/random.h>
#include <capstan/strategy.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "low_rank.h"

namespace lora {

/// One of a unit's adapters, as a layer's port calls it: what it adds to the frozen product on this rank.
struct Beside {
  capstan::nn::Unit* unit = nullptr;
  std::size_t index = 0;  ///< among the unit's adapters
  capstan::layout::Mesh mesh;
  int rank = 0;
  const capstan::nn::Router* router = nullptr;  ///< the router whose gate it adapts, if any

  /// Whether it acts in this forward, or the base model is computed (nn::Pass::adapters).
  bool acts() const { return unit->batch().pass.adapters; }
  /// y + scale · (dropout(x) A^T) B^T of each in y's memory; x [..., in], y [..., out] of this rank's features. What is
  /// next to one layer multiplies x together, unless each draws a mask of its own for it.
  static at::Tensor add_to(std::span<const Beside> adapters, const at::Tensor& y, const at::Tensor& x);
  /// The same of one where rows [R, in] are sorted by expert; `ends` as for ops::grouped_linear, `ids` tell which rows
  /// they are where there is dropout (of_tokens).
  at::Tensor add_to_grouped(const at::Tensor& y, const at::Tensor& rows, const at::Tensor& ends,
                            const at::Tensor& ids) const;
  /// What rows of experts are told apart by: an id of each token of the batch, from its sample and its position there
  /// [B S] int64. Undefined where nothing is dropped.
  at::Tensor of_tokens() const;

 private:
  // The same of what is not dropped, by one product with x.
  static at::Tensor add_all(std::span<const Beside> adapters, const at::Tensor& y, const at::Tensor& x);
  const capstan::nn::Adapter& adapter() const { return unit->adapters()[index]; }
  LowRank added() const;
  at::Tensor dropped(const at::Tensor& x) const;
  at::Tensor dropped_tokens(const at::Tensor& x) const;
  at::Tensor dropped_rows(const at::Tensor& rows, const at::Tensor& ids) const;
  bool drops() const;
  // The key of this adapter's masks for one token's features, without what tells tokens apart.
  capstan::ops::DropoutKey key() const;
  // Elements of a record of the base that lie in one column of this rank: output features.
  std::int64_t features(const capstan::layout::Param& record) const;
};

}  // namespace lora
