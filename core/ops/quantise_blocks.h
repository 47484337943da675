#pragma once
#include <capstan/base/export.h>
#include <capstan/ops/quantise_blocks.h>

#include <optional>
#include <tuple>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Values and scales; of a matrix and its transpose.
using BlockPair = std::tuple<at::Tensor, at::Tensor>;
using BlockPairs = std::tuple<at::Tensor, at::Tensor, at::Tensor, at::Tensor>;

/// What the operators compute, by plain calls of ATen, on any device. See quantise_blocks.h.
BlockPair plain_quantise_blocks(const at::Tensor& x, const std::optional<at::Tensor>& counts);
BlockPairs plain_quantise_blocks_both(const at::Tensor& x, const std::optional<at::Tensor>& counts);
BlockPair plain_quantise_tiles(const at::Tensor& w, bool transposed);
BlockPair plain_quantise_swiglu_blocks(const at::Tensor& x, const std::optional<at::Tensor>& counts);
BlockPair plain_quantise_swiglu_blocks_backward(const at::Tensor& gradient, const at::Tensor& x,
                                                const std::optional<at::Tensor>& counts);

/// Memory for them, of x's device: of a matrix [rows, columns].
BlockPair empty_blocks(const at::Tensor& x, std::int64_t rows, std::int64_t columns);
BlockPair empty_tiles(const at::Tensor& x, std::int64_t rows, std::int64_t columns);
std::int64_t padded_to_blocks(std::int64_t rows);

}  // namespace ops
CAPSTAN_END_NAMESPACE
