#pragma once
// Layers that multiply in 8 bits, for tests on CPU and on a GPU.
#include <memory>

#include "nn/weights.h"
#include "plugins/strategies/fp8/multiplier.h"
#include "plugins/strategies/fp8/stored.h"

namespace fp8_test {

struct Recipe {
  bool by_row = true;
  at::ScalarType gradient = at::kFloat8_e4m3fn;
  bool weight_gradient = true;
  bool fast = true;
  bool by_block = false;
};

inline std::shared_ptr<fp8::Multiplier> multiplier(const Recipe& recipe = {}) {
  auto made = std::make_shared<fp8::Multiplier>();
  made->scaling = recipe.by_block ? fp8::Scaling::block : recipe.by_row ? fp8::Scaling::row : fp8::Scaling::tensor;
  made->gradient = recipe.gradient;
  made->weight_gradient = recipe.weight_gradient;
  made->fast = recipe.fast;
  made->layer = "blocks.0/linear";
  return made;
}

/// The multiplier of a frozen weight of these values, which is also kept in 8 bits.
inline std::shared_ptr<fp8::Multiplier> frozen(const at::Tensor& value, const Recipe& recipe = {}) {
  auto made = multiplier(recipe);
  made->weight = capstan::testing::bound("w", value);
  made->weight->records().front().trainable = false;
  made->frozen = std::make_shared<fp8::Frozen>();
  made->frozen_transpose = std::make_shared<fp8::Frozen>();
  return made;
}

/// A weight that is only in 8 bits: the bytes that ports get, who multiplies them, and the numbers for which they
/// stand.
struct InBytes {
  std::shared_ptr<fp8::Multiplier> how;
  at::Tensor bytes, numbers;
};

inline InBytes stored(const at::Tensor& value, const Recipe& recipe = {}) {
  const auto codec = recipe.by_block ? std::make_shared<fp8::StoredTiles>(value.size(1))
                                     : std::make_shared<fp8::Stored>(static_cast<std::size_t>(value.dim()));
  const auto rows = value.view({-1, value.size(-1)});
  InBytes made{frozen(value, recipe), at::empty(value.sizes(), value.options().dtype(at::kByte)), {}};
  codec->keep_scales(codec->encode_rows(rows, made.bytes.view(rows.sizes())));
  made.how->stored = codec;
  made.how->frozen = made.how->frozen_transpose = nullptr;
  const auto held = codec->rows(made.bytes);
  made.numbers = recipe.by_block ? numbers_of_tiles(held, value.scalar_type())
                                 : held.values.to(value.scalar_type()).mul(held.scales.to(value.scalar_type()));
  return made;
}

}  // namespace fp8_test
