#pragma once
#include <capstan/decoder/decoder.h>

#include <cstdint>
#include <memory>
#include <string>

namespace capstan::decoder {

/// The attention of a block whose Spec has a LatentSpec; `block`: "model.layers.3.".
std::unique_ptr<nn::AttentionCore> latent_attention(nn::Layer& parent, const Spec& spec, std::int64_t index,
                                                    const std::string& block);
/// The weights of its products.
std::int64_t latent_weights(const Spec& spec);

}  // namespace capstan::decoder
