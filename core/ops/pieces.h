#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/comm/group.h>

#include <cstdint>
#include <string_view>

namespace capstan::ops {

// The plain collectives along a dimension, uneven pieces included; no autograd.

/// A fresh tensor with the sum over ranks.
at::Tensor sum_over(comm::Group& group, const at::Tensor& x, std::string_view label);
/// This rank's piece of `dim`, a copy.
at::Tensor cut(const comm::Group& group, const at::Tensor& x, std::int64_t dim);
/// The pieces of `dim`, `full` elements in all, concatenated.
at::Tensor gather(comm::Group& group, const at::Tensor& x, std::int64_t dim, std::int64_t full, std::string_view label);
/// This rank's piece of `dim` of the sum over ranks.
at::Tensor reduce_pieces(comm::Group& group, const at::Tensor& x, std::int64_t dim, std::string_view label);

}  // namespace capstan::ops
