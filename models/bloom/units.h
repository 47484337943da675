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
  nn::LayerNorm make_norm(const BloomOptions& options, const std::string& name);
  nn::Linear make_linear(const BloomOptions& options, const std::string& name, const std::string& record,
                         nn::Split split, const std::vector<std::int64_t>& features, std::int64_t in);
  at::Tensor attend(const at::Tensor& x, const nn::Batch& batch, nn::KVCache* cache) const;
  at::Tensor feed_forward(const at::Tensor& x) const;

  std::string file_;  // the block's prefix in record names: Hugging Face's "h.3"
  std::size_t index_;
  std::int64_t head_dim_;
  bool residual_after_norm_;
  nn::LayerNorm norm1_;
  nn::LayerNorm norm2_;
  nn::Linear qkv_;
  nn::Linear projection_;
  nn::Linear up_;
  nn::Linear down_;
  nn::Alibi alibi_;
  nn::Dropout attention_dropout_;
  nn::Dropout dropout1_;
  nn::Dropout dropout2_;
  nn::Region attention_{"attention"};
  nn::Region mlp_{"mlp"};
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
