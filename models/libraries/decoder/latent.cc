#include "latent.h"

#include "latent_attention.h"
#include "records.h"

namespace capstan::decoder {
namespace {

// [out, in], and [out] where there are biases.
nn::LinearWeights product_of(const std::string& module, std::int64_t out, std::int64_t in, bool bias, double std) {
  return linear_of({{module}, {{out}}, in, bias, std});
}

}  // namespace

std::unique_ptr<nn::AttentionCore> latent_attention(nn::Layer& parent, const Spec& spec, std::int64_t index,
                                                    const std::string& block) {
  const auto& latent = *spec.latent;
  const auto& heads = spec.attention.heads;
  const auto& names = spec.names.latent;
  const auto hidden = spec.hidden_size;
  const auto std = spec.init_std;
  const auto norm = [&](const std::string& module, std::int64_t width) {
    return vector_of(block + module + ".weight", width, layout::Init::ones());
  };
  LatentAttention::Weights weights;
  const bool has_query_latent = latent.query_rank > 0;
  if (has_query_latent) {
    weights.query_down = product_of(block + names.query_down, latent.query_rank, hidden, latent.bias, std);
    weights.query_norm = norm(names.query_norm, latent.query_rank);
  }
  weights.query_up = product_of(block + (has_query_latent ? names.query_up : spec.names.qkv.front()),
                                heads.queries * heads.dim, has_query_latent ? latent.query_rank : hidden, false, std);
  weights.keys_down = product_of(block + names.keys_down, latent.key_rank + latent.turned, hidden, latent.bias, std);
  weights.keys_norm = norm(names.keys_norm, latent.key_rank);
  weights.keys_up = product_of(block + names.keys_up, heads.queries * (heads.dim - latent.turned + heads.values()),
                               latent.key_rank, false, std);
  weights.projection = product_of(block + spec.names.projection, hidden, heads.queries * heads.values(),
                                  spec.projection_bias, residual_std(spec));
  LatentAttention::Kind kind{spec.attention, *spec.rotary};
  kind.turned = latent.turned;
  kind.turned_factor = latent.turned_factor;
  kind.dropout = spec.attention_dropout;
  kind.norm_epsilon = latent.norm_epsilon;
  kind.layer = static_cast<std::size_t>(index);
  return std::make_unique<LatentAttention>(parent, std::move(kind), std::move(weights));
}

std::int64_t latent_weights(const Spec& spec) {
  const auto& latent = *spec.latent;
  const auto& heads = spec.attention.heads;
  const auto queries = latent.query_rank > 0 ? latent.query_rank * (spec.hidden_size + heads.queries * heads.dim)
                                             : spec.hidden_size * heads.queries * heads.dim;
  const auto keys = spec.hidden_size * (latent.key_rank + latent.turned) +
                    latent.key_rank * heads.queries * (heads.dim - latent.turned + heads.values());
  return queries + keys + heads.queries * heads.values() * spec.hidden_size;
}

}  // namespace capstan::decoder
