#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/base/export.h>
#include <capstan/comm/group.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// The label of a row that is no target: it adds neither loss nor gradient.
inline constexpr std::int64_t ignored_label = -100;

/// Sum over the target rows of -log softmax(hidden weight^T)[label], without ever holding all logits.
///
/// `hidden` is [N, h] and `weight` [V, h], both of one dtype (float64, float32, bfloat16, half), `labels` [N] int64 in
/// [0, V) or ignored_label; the caller checks that they are in range. Returns a scalar, float64 for float64
/// input and else float32. At most `chunk_rows` (>= 1) rows of logits exist at a time, in the scalar's dtype.
///
/// If gradients will be needed, forward computes them chunk by chunk from the logits, for a loss gradient of 1, and
/// backward only multiplies by the incoming one: exact, because the loss is a scalar. It keeps the gradient of hidden
/// (hidden's dtype) and of weight (in the scalar's dtype, summed there over the chunks); neither is computed if its
/// tensor requires no gradient. Not differentiable twice.
///
/// Numbers: logits, maximum, exponentials and their sum are in the scalar's dtype at every input dtype; the gradient of
/// 16-bit logits is rounded to 16 bits for the two products, which accumulate in float32 (half: scaled by 2^10, so
/// that probabilities below 2^-24 are not lost). Losses of rows are added in float64. On CPU the products skip rows
/// that are no targets; on CUDA that would wait for the device, so all rows are computed: a caller that knows on the
/// host which rows bear loss passes only these, as nn::VocabularyHead does by the batch's loss_rows.
///
/// `cap`: logits are cap · tanh(hidden weight^T / cap) instead; for gradients their slopes are a second chunk.
at::Tensor chunked_linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                        std::int64_t chunk_rows, std::optional<double> cap = {});

/// Rows of logits to hold at once for a vocabulary (or this rank's part of one): whole 256, and at most 1 GiB of them
/// in fp32. That bounds memory for a large vocabulary and needs few kernels for a small one. Where the
/// matrix is trained, whose gradient each chunk reads and writes, up to 2 GiB for up to 2048 rows.
std::int64_t cross_entropy_chunk_rows(std::int64_t vocabulary, bool trains_weight = false);

/// This rank's rows of a matrix whose vocabulary is split.
struct VocabularyPart {
  std::shared_ptr<comm::Group> group;  ///< the ranks that hold the other rows, on the tensors' device
  std::int64_t begin = 0;              ///< the first row's word
  std::string label;                   ///< for hang reports and errors
};

/// The same where `weight` holds only this rank's rows (at least one); `labels` are words of the whole vocabulary.
/// `hidden`, `labels` and `chunk_rows` are the same on all ranks of the group, and so is the loss. The gradient of
/// hidden is a partial sum over the group. Logits never leave their rank: each chunk takes two all-reduces, one with
/// one number a row and one with two, in forward only.
at::Tensor split_linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                      std::int64_t chunk_rows, const VocabularyPart& part,
                                      std::optional<double> cap = {});

}  // namespace ops
CAPSTAN_END_NAMESPACE
