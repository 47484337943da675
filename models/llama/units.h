#pragma once
#include <capstan/model.h>

#include "options.h"

namespace llama {

namespace nn = capstan::nn;

/// The token table.
class EmbeddingUnit : public nn::Unit {
 public:
  explicit EmbeddingUnit(const nn::WeightPtr& tokens);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  nn::Embedding tokens_;
};

/// x + attention(norm(x)), then x + gated feed-forward(norm(x)).
class Block : public nn::Unit {
 public:
  Block(const LlamaOptions& options, std::int64_t index);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  // Of a product of the parts' features, fused; `bias`: each has one.
  nn::LinearWeights weights(const LlamaOptions& options, std::int64_t in,
                            const std::vector<std::pair<std::string, std::int64_t>>& parts, bool bias);
  nn::Attention::Weights attention_weights(const LlamaOptions& options);

  std::string file_;  // the block's prefix in record names: Hugging Face's "model.layers.3"
  nn::RmsNorm norm1_;
  nn::RmsNorm norm2_;
  nn::Attention attention_;
  nn::Mlp mlp_;
  nn::Region attention_region_{*this, "attention"};
  nn::Region mlp_region_{*this, "mlp"};
};

/// Final norm and head: the loss sum, or logits of each row's last position.
class Head : public nn::Unit {
 public:
  Head(const LlamaOptions& options, const nn::WeightPtr& matrix);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  nn::RmsNorm norm_;
  nn::VocabularyHead head_;
};

}  // namespace llama
