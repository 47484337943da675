#pragma once
#include <capstan/decoder/decoder.h>

namespace decoder_test {

inline constexpr std::int64_t words = 7, width = 6, length = 4;

inline capstan::decoder::Spec tiny() {
  capstan::decoder::Spec spec;
  spec.vocab_size = words;
  spec.hidden_size = width;
  spec.num_layers = 1;
  spec.max_positions = 9;
  spec.ff_dim = 5;
  spec.attention.heads = {2, 1, 4};
  spec.norm_epsilon = 1e-3;
  return spec;
}

}  // namespace decoder_test
