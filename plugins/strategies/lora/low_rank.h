#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

namespace lora {

/// What a low-rank adapter adds to the features [begin, begin + n) of a product.
struct LowRank {
  at::Tensor up;  ///< [n, rank]: the second matrix
  double scale = 1;
  std::int64_t begin = 0;
};

/// x [.., in] times the first matrices [rank, in] of adapters: [rows, sum of ranks], one after another. One product,
/// so that x is read once, and by backward once for the gradients of all of them and once for its own.
at::Tensor inner_of(const at::Tensor& x, const std::vector<at::Tensor>& downs);

/// y[.., begin : begin + n] += scale · inner up^T of each adapter in y's own memory, by the product that multiplies;
/// returns y. `inner` [rows, sum of ranks] has the adapters' columns in their order. `y` [.., features] is contiguous,
/// has `rows` rows in all, and nothing keeps what it was. Differentiable once in y, inner and all ups, and bit-equal to
/// at::addmm_ on those parts of y; autograd's own backward of that copies the gradient of all of y three times, this
/// one passes it on.
at::Tensor add_low_rank_(const at::Tensor& y, const at::Tensor& inner, const std::vector<LowRank>& adapters);

}  // namespace lora
