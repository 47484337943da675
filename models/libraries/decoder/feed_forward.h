#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/decoder/decoder.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "norm.h"

namespace capstan::decoder {

/// The layer of a mixture that computes every token.
class SharedExpert : public nn::Layer {
 public:
  /// `file`: the block's prefix in record names, "model.layers.3.".
  SharedExpert(nn::Layer& parent, const Spec& spec, const std::string& file);
  /// [B, S, hidden] -> [B, S, hidden].
  at::Tensor forward(const at::Tensor& x) const;

 private:
  nn::Mlp mlp_;
  std::optional<nn::Linear> gate_;
};

/// The norms of a block that has a plain layer and experts side by side, besides those of every block.
struct BesideNorms {
  BesideNorms(nn::Layer& block, const Spec& spec, const std::string& file);
  StatesNorm after_dense;
  StatesNorm before_experts;
  StatesNorm after_experts;
};

/// The feed-forward layer of a block: one of the kinds that its Spec may ask for.
class BlockFeedForward {
 public:
  BlockFeedForward(nn::Layer& block, const Spec& spec, std::int64_t index, const std::string& file);
  /// [B, S, hidden] -> [B, S, hidden]. `kept`: not null where there is a mixture.
  at::Tensor forward(const at::Tensor& x, nn::RecomputeContext* kept) const;
  /// As MixtureSpec::beside_dense says: of `states` [B, S, hidden], which are `normed` for the plain layer.
  at::Tensor forward_beside(const at::Tensor& normed, const at::Tensor& states, nn::RecomputeContext& kept) const;
  /// Is that what the block has?
  bool norms_states() const { return beside_.has_value(); }
  /// Null: it is none.
  const nn::Mixture* mixture() const { return mixture_ ? &*mixture_ : nullptr; }

 private:
  void add_dense(nn::Layer& block, const Spec& spec, std::int64_t width, const std::string& file);
  std::optional<nn::Mlp> mlp_;
  std::optional<nn::Mixture> mixture_;
  std::optional<SharedExpert> shared_;  // beside the mixture
  std::optional<BesideNorms> beside_;   // of both
  std::unique_ptr<FeedForward> own_;
};

}  // namespace capstan::decoder
