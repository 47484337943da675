#include "latent_attention.h"

#include <ATen/ATen.h>

#include <utility>

namespace capstan::decoder {

// What makes latents stays whole on each rank and acts on its positions, what makes heads of them is cut.
LatentAttention::LatentAttention(nn::Layer& parent, Kind kind, Weights weights)
    : AttentionCore(parent, kind.spec, kind.dropout, kind.layer, nullptr),
      kind_(std::move(kind)),
      query_up_(*this, "linear_q_up", nn::WeightSplit::columns, std::move(weights.query_up.weight),
                std::move(weights.query_up.bias)),
      keys_down_(*this, "linear_kv_down", nn::WeightSplit::none, std::move(weights.keys_down.weight),
                 std::move(weights.keys_down.bias)),
      keys_norm_(*this, "kv_norm", std::move(weights.keys_norm), kind_.norm_epsilon),
      keys_up_(*this, "linear_kv_up", nn::WeightSplit::columns, std::move(weights.keys_up.weight),
               std::move(weights.keys_up.bias)),
      projection_(*this, "linear_proj", nn::WeightSplit::rows, std::move(weights.projection.weight),
                  std::move(weights.projection.bias)) {
  if (!weights.query_down.weight) return;
  query_down_.emplace(*this, "linear_q_down", nn::WeightSplit::none, std::move(weights.query_down.weight),
                      std::move(weights.query_down.bias));
  query_norm_.emplace(*this, "q_norm", std::move(weights.query_norm), kind_.norm_epsilon);
}

LatentAttention::~LatentAttention() = default;

// `heads` is [B, S, heads, turned].
at::Tensor LatentAttention::turned(const at::Tensor& heads, const nn::Batch& batch) const {
  const auto y = kind_.rotary.forward(heads.contiguous(), batch.positions);
  return kind_.turned_factor == 1 ? y : y * kind_.turned_factor;
}

// [B, S, heads, dim].
at::Tensor LatentAttention::queries(const at::Tensor& x, const nn::Batch& batch) const {
  const auto latent = query_down_ ? query_norm_->forward(query_down_->forward(x)) : x;
  const auto q = query_up_.forward(latent).unflatten(-1, {-1, heads().dim});
  const auto still = heads().dim - kind_.turned;
  return at::cat({q.narrow(-1, 0, still), turned(q.narrow(-1, still, kind_.turned), batch)}, -1);
}

at::Tensor LatentAttention::forward(const at::Tensor& x, const nn::Batch& batch, nn::KVCache* cache) const {
  const auto q = queries(x, batch);
  const auto down = keys_down_.forward(x);
  const auto width = down.size(-1) - kind_.turned;
  const auto latent = keys_norm_.forward(down.narrow(-1, 0, width));
  auto part = down.narrow(-1, width, kind_.turned);
  if (shared_keys) part = shared_keys(part);
  part = turned(part.unsqueeze(-2), batch);
  const auto still = heads().dim - kind_.turned;
  const auto both = keys_up_.forward(latent).unflatten(-1, {-1, still + heads().values()});
  const auto keys = both.narrow(-1, 0, still);
  const auto k = at::cat({keys, part.expand({-1, -1, keys.size(2), -1})}, -1);
  const auto v = both.narrow(-1, still, heads().values());
  const auto y = attend(q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), batch, cache);
  return projection_.forward(y.transpose(1, 2).flatten(2));
}

}  // namespace capstan::decoder
