#include "sharing.h"

#include <ATen/ATen.h>

#include <cmath>

namespace capstan::decoder {

double rounded(double value, at::ScalarType type) {
  const auto single = static_cast<float>(value);
  if (type == at::kBFloat16) return static_cast<float>(at::BFloat16(single));
  return type == at::kHalf ? static_cast<float>(at::Half(single)) : value;
}

SharingAttention::SharingAttention(nn::Attention& attention, const Spec& s)
    : attention_(attention),
      sharing_(s.sharing),
      rotary_(s.rotary),
      place_((s.inputs.width > 0 ? 1 : 0) + 2 * s.sharing.place) {}

ops::RotaryHeads SharingAttention::given(const at::Tensor& fused, const nn::Batch& batch) const {
  const auto call = attention_.heads_call(fused, batch);
  return attention_.preparation().row_for(call)->run(call);
}

ops::RotaryHeads SharingAttention::read(const at::Tensor& product, const nn::Batch& batch,
                                        const std::vector<at::Tensor>& carried) const {
  auto q = product.unflatten(-1, {-1, attention_.heads().dim});
  if (const auto* norm = attention_.query_norm()) q = norm->forward(q);
  if (rotary_) q = rotary_->forward(q, batch.positions);
  return {q, carried.at(place_), carried.at(place_ + 1)};
}

at::Tensor SharingAttention::forward(const at::Tensor& x, const nn::Batch& batch, nn::KVCache* cache,
                                     std::vector<at::Tensor>& carried) const {
  const auto product = attention_.qkv().forward(x);
  const auto own = sharing_.of ? read(product, batch, carried) : given(product, batch);
  if (sharing_.gives) carried.insert(carried.end(), {own.k, own.v});
  const auto y = attention_.attend(own.q.transpose(1, 2), own.k.transpose(1, 2), own.v.transpose(1, 2), batch, cache);
  return attention_.projection().forward(y.transpose(1, 2).flatten(2));
}

BlockInputs::BlockInputs(nn::Layer& parent, const Spec& s)
    : width_(s.inputs.width),
      scale_(1 / std::sqrt(static_cast<double>(s.hidden_size))),
      table_(parent, last_part(s.inputs.tokens), nn::WeightSplit::none,
             matrix_of(s.inputs.tokens + ".weight", {s.inputs.vocab_size, s.num_layers * width_}, s.init_std)),
      projection_(parent, "linear_inputs", nn::WeightSplit::none,
                  matrix_of(s.inputs.model_projection + ".weight", {s.num_layers * width_, s.hidden_size}, s.init_std),
                  nullptr),
      norm_(parent, last_part(s.inputs.projection_norm),
            vector_of(s.inputs.projection_norm + ".weight", width_, layout::Init::ones()), s.norm_epsilon) {}

at::Tensor BlockInputs::forward(const at::Tensor& x, const nn::Batch& batch) const {
  const auto of_states = norm_.forward((projection_.forward(x) * scale_).unflatten(-1, {-1, width_}));
  const auto rows = table_.forward(batch.tokens, batch.real);
  const auto of_tokens = rows * rounded(std::sqrt(static_cast<double>(width_)), rows.scalar_type());
  return (of_states + of_tokens.unflatten(-1, {-1, width_})) * std::sqrt(0.5);
}

BlockInput::BlockInput(nn::Layer& parent, const Spec& s, std::int64_t block, const std::string& records)
    : block_(block),
      activation_(s.mlp.activation),
      gate_(parent, "linear_input_gate", nn::WeightSplit::none,
            matrix_of(records + s.inputs.gate + ".weight", {s.inputs.width, s.hidden_size}, s.init_std), nullptr),
      projection_(parent, "linear_input_proj", nn::WeightSplit::none,
                  matrix_of(records + s.inputs.projection + ".weight", {s.hidden_size, s.inputs.width}, s.init_std),
                  nullptr),
      norm_(parent, s.inputs.norm, vector_of(records + s.inputs.norm + ".weight", s.hidden_size, layout::Init::ones()),
            s.norm_epsilon) {}

at::Tensor BlockInput::forward(const at::Tensor& x, const std::vector<at::Tensor>& carried) const {
  const auto own = carried.front().select(2, block_);
  return x + norm_.forward(projection_.forward(nn::activated(activation_, gate_.forward(x)) * own));
}

at::Tensor CarriedParts::completed(const nn::Hidden& hidden) const {
  const auto x = input ? input->forward(hidden.states, hidden.carried) : hidden.states;
  return factor ? x * factor->value().to(x.scalar_type()) : x;
}

}  // namespace capstan::decoder
