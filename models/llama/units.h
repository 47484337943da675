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
  // A product of the parts' features, fused; `bias`: each has one.
  nn::Linear linear(const LlamaOptions& options, const std::string& name, nn::Split split, std::int64_t in,
                    const std::vector<std::pair<std::string, std::int64_t>>& parts, bool bias);
  nn::RotaryAttention make_attention(const LlamaOptions& options, std::int64_t index);
  nn::GatedMlp make_mlp(const LlamaOptions& options);

  std::string file_;  // the block's prefix in record names: Hugging Face's "model.layers.3"
  nn::RmsNorm norm1_;
  nn::RmsNorm norm2_;
  nn::RotaryAttention attention_;
  nn::GatedMlp mlp_;
  nn::Region attention_region_{"attention"};
  nn::Region mlp_region_{"mlp"};
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
