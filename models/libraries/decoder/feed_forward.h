#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/decoder/decoder.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

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

/// The feed-forward layer of a block: one of the kinds that its Spec may ask for.
class BlockFeedForward {
 public:
  BlockFeedForward(nn::Layer& block, const Spec& spec, std::int64_t index, const std::string& file);
  /// [B, S, hidden] -> [B, S, hidden]. `kept`: not null where there is a mixture.
  at::Tensor forward(const at::Tensor& x, nn::RecomputeContext* kept) const;
  /// Null: it is none.
  const nn::Mixture* mixture() const { return mixture_ ? &*mixture_ : nullptr; }

 private:
  std::optional<nn::Mlp> mlp_;
  std::optional<nn::Mixture> mixture_;
  std::optional<SharedExpert> shared_;  // beside the mixture
  std::unique_ptr<FeedForward> own_;
};

}  // namespace capstan::decoder
