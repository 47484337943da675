// What tests of products in 8 bits share.
#pragma once
#include <ATen/ATen.h>

#include <vector>

#include "nn/weights.h"

namespace eight_bits {

// Numbers of many magnitudes by row and by column, with the formats' ties, numbers too small for them, zeros of both
// signs, a row and a column of zeros.
inline at::Tensor awkward(const std::vector<std::int64_t>& shape, at::ScalarType type) {
  at::Tensor x = capstan::testing::numbers(shape, 0.7);
  const auto rows = shape[shape.size() - 2], columns = shape.back();
  x.mul_(at::arange(rows, at::kDouble).mul(0.9).sin().mul(20).exp2().view({rows, 1}));
  x.mul_(at::arange(columns, at::kDouble).mul(1.3).sin().mul(8).exp2());
  x.flatten().slice(0, 0, c10::nullopt, 7).fill_(0.40625).slice(0, 0, c10::nullopt, 3).fill_(-0.0);
  x.select(-1, columns / 2).zero_();
  if (rows > 2) x.select(-2, rows - 2).zero_();
  return x.to(type);
}

// The same bits, but for the sign of what is not a number.
inline bool same(const at::Tensor& there, const at::Tensor& here) {
  const at::Tensor copy = there.cpu();
  if (copy.sizes() != here.sizes() || copy.scalar_type() != here.scalar_type()) return false;
  const auto bits = here.element_size() == 1 ? at::kByte : at::kInt;
  const auto nan = here.to(at::kFloat).isnan();
  return at::equal(copy.to(at::kFloat).isnan(), nan) &&
         at::equal(copy.view(bits).masked_fill(nan, 0), here.view(bits).masked_fill(nan, 0));
}

}  // namespace eight_bits
