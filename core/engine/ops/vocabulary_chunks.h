#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/ops/cross_entropy.h>

#include <cstdint>
#include <optional>

#include <capstan/ops/head_products.h>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Rows of a softmax over the vocabulary: what becomes of a chunk's logits, which exist only while it is computed.
class VocabularyChunks {
 public:
  /// All rows' statistics, each [N, 1]: what a row's gradient needs besides its logits.
  struct Statistics {
    at::Tensor maximum;
    at::Tensor sum;     ///< sums exp(logit - maximum)
    at::Tensor picked;  ///< the label's logit - maximum
  };

  /// `keeps_statistics`: to compute the gradients later, by gradients_again.
  VocabularyChunks(HeadProducts& products, std::optional<VocabularyPart> part, bool keeps_statistics);

  /// Computes the losses of all rows, and the gradients that are wanted for a loss gradient of 1 a row.
  void compute(const at::Tensor& labels, std::int64_t chunk_rows);
  /// Computes the gradients of Σ factor[row] · loss[row] from another object's statistics, without a collective. The
  /// factors are those of the products.
  void gradients_again(const at::Tensor& labels, std::int64_t chunk_rows, const Statistics& statistics);

  /// [N]: -log softmax[label]; 0 where there is no label.
  const at::Tensor& losses() const { return losses_; }
  const Statistics& statistics() const { return statistics_; }

 private:
  /// Where each row's label is among this rank's logits.
  struct Target {
    at::Tensor ignored;    ///< [rows, 1] bool: the row has no label
    at::Tensor column;     ///< [rows, 1]; in [0, this rank's words) on a device without fused passes
    at::Tensor elsewhere;  ///< [rows, 1] bool: another rank has it; undefined: none has
  };
  Target target_of(const at::Tensor& labels) const;
  void add(std::int64_t begin, const at::Tensor& labels);
  Statistics statistics_plain(const at::Tensor& logits, const Target& target) const;
  Statistics statistics_fused(const at::Tensor& logits, const Target& target) const;
  at::Tensor logits_gradient(const at::Tensor& logits, const Statistics& of, const Target& target) const;
  void over_ranks(const at::Tensor& numbers, comm::ReduceOp op) const;

  HeadProducts& products_;
  std::optional<VocabularyPart> part_;
  at::Tensor losses_;
  Statistics statistics_;
};

}  // namespace ops
CAPSTAN_END_NAMESPACE
