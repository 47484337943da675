#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/ops/random.h>
#include <capstan/strategy.h>

#include <cstddef>
#include <cstdint>

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
  /// y + scale · (dropout(x) A^T) B^T in y's memory; x [..., in], y [..., out] of this rank's features.
  at::Tensor add_to(const at::Tensor& y, const at::Tensor& x) const;
  /// The same where rows [R, in] are sorted by expert; `ends` as for ops::grouped_linear, `ids` tell which rows they
  /// are where there is dropout (of_tokens).
  at::Tensor add_to_grouped(const at::Tensor& y, const at::Tensor& rows, const at::Tensor& ends,
                            const at::Tensor& ids) const;
  /// What rows of experts are told apart by: an id of each token of the batch, from its sample and its position there
  /// [B S] int64. Undefined where nothing is dropped.
  at::Tensor of_tokens() const;

 private:
  const capstan::nn::Adapter& adapter() const { return unit->adapters()[index]; }
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
