#pragma once
#include <capstan/model.h>

#include "options.h"

namespace gpt {

namespace nn = capstan::nn;

/// Token and position tables.
class EmbeddingUnit : public nn::Unit {
 public:
  EmbeddingUnit(const GptOptions& options, const nn::WeightPtr& tokens);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  nn::Embedding tokens_;
  nn::Embedding positions_;
  nn::Dropout dropout_;
};

/// A pre-norm block: x + attention(norm(x)), then x + feed-forward(norm(x)).
class Block : public nn::Unit {
 public:
  Block(const GptOptions& options, std::int64_t index);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  nn::WeightPtr fused_qkv(const std::string& suffix, const GptOptions& options, bool is_bias);
  nn::WeightPtr vector(const std::string& record, std::int64_t size, capstan::layout::Init init);
  nn::WeightPtr matrix(const std::string& record, std::int64_t out, std::int64_t in, double std);

  std::string file_;  // the block's prefix in record names: Hugging Face's "h.3"
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
  Head(const GptOptions& options, const nn::WeightPtr& matrix);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  nn::LayerNorm norm_;
  nn::VocabularyHead head_;
};

}  // namespace gpt
