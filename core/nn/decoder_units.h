#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/decoder.h>

#include <cstdint>
#include <optional>
#include <string>

#include "ops/add_norm.h"

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// Makes weights as a spec says; the layers that are made of them own them.
class DecoderRecords {
 public:
  explicit DecoderRecords(const DecoderSpec& spec) : spec_(spec) {}
  WeightPtr table(const std::string& module, std::int64_t rows) const;
  WeightPtr vector(const std::string& name, std::int64_t size, layout::Init init) const;
  /// [features …, in] of each module, as one weight; with biases [features …].
  LinearWeights linear(const std::vector<std::string>& modules, const std::vector<layout::Shape>& features,
                       std::int64_t in, bool bias, double std) const;
  Attention::Weights attention(const std::string& block) const;
  Mixture::Weights mixture(const std::string& block) const;
  double residual_std() const { return spec_.residual_init_std.value_or(spec_.init_std); }

 private:
  const DecoderSpec& spec_;
};

/// The norm that the spec asks for, or none.
class DecoderNorm {
 public:
  /// No module: none.
  DecoderNorm(Layer& parent, const std::string& name, const DecoderSpec& spec, const std::string& module);
  at::Tensor forward(const at::Tensor& x) const;
  /// {x + y, the norm of it}; y undefined: of x. On a GPU in one pass, as is the sum of both gradients.
  ops::Normed forward_sum(const at::Tensor& x, const at::Tensor& y) const;

 private:
  std::optional<LayerNorm> layer_;
  std::optional<RmsNorm> rms_;
  WeightPtr weight_, bias_;  // null: no norm, and no bias
  double epsilon_;
};

class DecoderEmbedding : public Unit {
 public:
  DecoderEmbedding(const DecoderSpec& spec, const WeightPtr& tokens);
  Hidden forward(Hidden hidden, const Batch& batch, KVCache* cache) override;

 private:
  double multiplier_;
  Embedding tokens_;
  std::optional<Embedding> positions_;
  DecoderNorm norm_;
  Dropout dropout_;
};

class DecoderBlock : public Unit {
 public:
  DecoderBlock(const DecoderSpec& spec, std::int64_t index);
  Hidden forward(Hidden hidden, const Batch& batch, KVCache* cache) override;

 private:
  at::Tensor scaled(const at::Tensor& y) const;

  std::string file_;  // the block's prefix in record names: "model.layers.3"
  bool residual_after_norm_;
  double multiplier_;
  bool balanced_;
  DecoderNorm norm1_;
  DecoderNorm norm2_;
  Attention attention_;
  std::optional<Mlp> mlp_;
  std::optional<Mixture> mixture_;
  DecoderNorm post_norm1_;
  DecoderNorm post_norm2_;
  Dropout dropout1_;
  Dropout dropout2_;
  Region attention_region_{*this, "attention"};
  Region mlp_region_{*this, "mlp"};
};

class DecoderHead : public Unit {
 public:
  DecoderHead(const DecoderSpec& spec, const WeightPtr& matrix);
  Hidden forward(Hidden hidden, const Batch& batch, KVCache* cache) override;

 private:
  double multiplier_;
  double balance_weight_;
  std::optional<LoadBalance> balance_;
  DecoderNorm norm_;
  VocabularyHead head_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
