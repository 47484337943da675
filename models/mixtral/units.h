#pragma once
#include <capstan/model.h>

#include "options.h"

namespace mixtral {

namespace nn = capstan::nn;

/// The token table.
class EmbeddingUnit : public nn::Unit {
 public:
  explicit EmbeddingUnit(const nn::WeightPtr& tokens);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  nn::Embedding tokens_;
};

/// x + attention(norm(x)), then x + experts(norm(x)). In training with router_aux_loss, hidden.sums carries the
/// routers' load (Router::no_load); in training hidden.expert_tokens gets what the experts compute.
class Block : public nn::Unit {
 public:
  Block(const MixtralOptions& options, std::int64_t index);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  nn::Attention::Weights attention_weights(const MixtralOptions& options);
  nn::Mixture::Weights mixture_weights(const MixtralOptions& options);

  std::string file_;  // the block's prefix in record names: Hugging Face's "model.layers.3"
  bool aux_loss_;
  nn::RmsNorm norm1_;
  nn::RmsNorm norm2_;
  nn::Attention attention_;
  nn::Mixture mixture_;
  nn::Region attention_region_{*this, "attention"};
  nn::Region mlp_region_{*this, "mlp"};
};

/// Final norm and head: the loss sum, or logits of each row's last position. In training with router_aux_loss,
/// hidden.sums becomes that loss times its coefficient.
class Head : public nn::Unit {
 public:
  Head(const MixtralOptions& options, const nn::WeightPtr& matrix);
  nn::Hidden forward(nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) override;

 private:
  double aux_loss_coef_;
  nn::LoadBalance balance_{*this};
  nn::RmsNorm norm_;
  nn::VocabularyHead head_;
};

/// Where a block's experts stand in records and files: "model.layers.3.block_sparse_moe".
std::string moe_name(std::int64_t block);

}  // namespace mixtral
