#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/ops/cross_entropy.h>

#include <cstdint>
#include <optional>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// [N]: log softmax(hidden weight^T)[label] of each row, 0 where the label is ignored_label, without ever holding all
/// logits. Arguments, dtypes and numbers are chunked_linear_cross_entropy's, whose sum is minus the sum of these.
///
/// Each row may get another gradient. If only hidden needs one, forward computes it for a gradient of 1 a row, chunk by
/// chunk from the logits, and backward multiplies each row: nothing is computed twice. If the weight needs one too,
/// forward keeps three numbers a row, and backward computes each chunk's logits again. In 16 bits the states that the
/// weight's gradient is a product of are rounded once more, after they have been multiplied by the row's gradient
/// relative to the largest one. Not differentiable twice.
at::Tensor chunked_label_log_probabilities(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                           std::int64_t chunk_rows, std::optional<double> cap = {});

/// The same where `weight` holds only this rank's rows, as in split_linear_cross_entropy: the results and their
/// gradients are the same on all ranks, the gradient of hidden is a partial sum, and only forward communicates.
at::Tensor split_label_log_probabilities(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                         std::int64_t chunk_rows, const VocabularyPart& part,
                                         std::optional<double> cap = {});

}  // namespace ops
CAPSTAN_END_NAMESPACE
