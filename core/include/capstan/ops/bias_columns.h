#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <cstdint>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// q and k, each [.., dim], widened to dim + 3 columns rounded up to a multiple of 8, so that scale · q'k' = scale · qk
/// + bias[.., key]: q' = [q, 1, 1, 1, 0 …], k' = [k, high, middle, low, 0 …] with bias / scale as the sum of three
/// numbers of k's dtype (three of bfloat16 hold all of a float32). `bias` has k's shape but for the columns, and is
/// float32 or float64.
struct WidenedHeads {
  at::Tensor q;
  at::Tensor k;
};
WidenedHeads with_bias_columns(const at::Tensor& q, const at::Tensor& k, const at::Tensor& bias, double scale);

/// How many columns q and k of `dim` columns then have.
std::int64_t bias_columns(std::int64_t dim);

}  // namespace ops
CAPSTAN_END_NAMESPACE
