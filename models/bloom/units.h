#pragma once
#include <capstan/model.h>

#include "options.h"

namespace bloom {

namespace nn = capstan::nn;

/// The token table and a layer norm.
class EmbeddingUnit : public nn::Unit {
 public:
  EmbeddingUnit(const BloomOptions& options, const nn::WeightPtr& tokens);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  nn::Embedding tokens_;
  nn::LayerNorm norm_;
};

/// x + attention(norm(x)), then x + feed-forward(norm(x)); with residual_after_norm, norm(x) + … each time.
class Block : public nn::Unit {
 public:
  Block(const BloomOptions& options, std::int64_t index);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  nn::WeightPtr norm_record(const BloomOptions& options, const std::string& name, capstan::layout::Init init);
  nn::LinearWeights weights(const BloomOptions& options, const std::string& record,
                            const std::vector<std::int64_t>& features, std::int64_t in);

  std::string file_;  // the block's prefix in record names: Hugging Face's "h.3"
  bool residual_after_norm_;
  nn::LayerNorm norm1_;
  nn::LayerNorm norm2_;
  nn::Attention attention_;
  nn::Mlp mlp_;
  nn::Dropout dropout1_;
  nn::Dropout dropout2_;
  nn::Region attention_region_{*this, "attention"};
  nn::Region mlp_region_{*this, "mlp"};
};

/// Final norm and head: the loss sum, or logits of each row's last position.
class Head : public nn::Unit {
 public:
  Head(const BloomOptions& options, const nn::WeightPtr& matrix);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  nn::LayerNorm norm_;
  nn::VocabularyHead head_;
};

}  // namespace bloom
