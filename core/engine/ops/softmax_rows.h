#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>

#include <tuple>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

// Softmax over rows of float32 logits [R, V] on a GPU, in two passes over them: one that reads, and one that reads and
// writes; or in one that does both. Each row's sums are made in a fixed order.

/// (maximum, sum of exp(logit - maximum), logit at `column`), each [R, 1] float32, by one pass (Milakov & Gimelshein
/// 2018, "Online normalizer calculation for softmax"). `column` [R, 1] int64; outside of [0, V): the logit is 0.
std::tuple<at::Tensor, at::Tensor, at::Tensor> softmax_statistics(const at::Tensor& logits, const at::Tensor& column);

/// (exp(logit - maximum) / sum - [it is at `column`]) * scale, rounded once to `type` (float32, bfloat16 or half); a
/// row whose sum is infinite and that has no such column is zero. Written in the place of the logits, which are lost:
/// the result is a view of their memory [R, V], with rows as far apart as theirs.
at::Tensor softmax_gradient_(const at::Tensor& logits, const at::Tensor& maximum, const at::Tensor& sum,
                             const at::Tensor& column, double scale, at::ScalarType type);

/// Both of them with the losses [R] float32, -log softmax[column]: each number is read once and written once. A row
/// whose column [R] int64 is negative is no target: its loss and gradient are zero. On GPUs with clusters of thread
/// blocks (sm_90 on), which hold a row of up to 262,144 logits in their registers; elsewhere, and where 4 does not
/// divide V, by the two passes.
at::Tensor softmax_loss_(const at::Tensor& logits, const at::Tensor& column, double scale, at::ScalarType type,
                         const at::Tensor& losses);

}  // namespace ops
CAPSTAN_END_NAMESPACE
