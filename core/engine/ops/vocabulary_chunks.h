#pragma once
#include <ATen/core/Tensor.h>
#include <capstan/ops/cross_entropy.h>

#include <cstdint>
#include <optional>

CAPSTAN_BEGIN_NAMESPACE
namespace ops {

/// Asserts the shapes and dtypes that the losses over a vocabulary promise to take.
void check_loss_inputs(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                       std::int64_t chunk_rows);

/// Rows of a softmax over the vocabulary: what becomes of a chunk's logits, which exist only while it is computed.
/// Numbers and parts of a vocabulary are as capstan/ops/cross_entropy.h says.
class VocabularyChunks {
 public:
  struct Wanted {
    bool hidden_gradient = false;
    bool weight_gradient = false;
    bool statistics = false;  ///< to compute the gradients later, by gradients_again
  };
  /// Each row's factor [N, 1], in the sums' dtype. The weight's has a scale of its own, which keeps it near 1: it acts
  /// on states, and the products are rounded to 16 bits.
  struct Factors {
    at::Tensor of_hidden;
    at::Tensor of_weight;
  };
  /// All rows' statistics, each [N, 1]: what a row's gradient needs besides its logits.
  struct Statistics {
    at::Tensor maximum;
    at::Tensor sum;     ///< of exp(logit - maximum)
    at::Tensor picked;  ///< the label's logit - maximum
  };

  VocabularyChunks(const at::Tensor& hidden, const at::Tensor& weight, std::optional<VocabularyPart> part,
                   const Wanted& wanted);

  /// Computes the losses of all rows, and the gradients for a loss gradient of 1 a row.
  void compute(const at::Tensor& labels, std::int64_t chunk_rows);
  /// Computes the gradients of Σ factor[row] · loss[row] from another object's statistics, without a collective.
  void gradients_again(const at::Tensor& labels, std::int64_t chunk_rows, const Statistics& statistics,
                       const Factors& factors);

  /// [N]: -log softmax[label]; 0 where there is no label.
  const at::Tensor& losses() const { return losses_; }
  const Statistics& statistics() const { return statistics_; }
  const at::Tensor& grad_hidden() const { return grad_hidden_; }
  const at::Tensor& grad_weight() const { return grad_weight_; }

 private:
  /// Where each row's label is among this rank's logits.
  struct Target {
    at::Tensor ignored;    ///< [rows, 1] bool: the row has no label
    at::Tensor column;     ///< [rows, 1]; in [0, this rank's words) on a device without fused passes
    at::Tensor elsewhere;  ///< [rows, 1] bool: another rank has it; undefined: none has
  };
  bool is_fused(const at::Tensor& logits) const;
  bool wants_gradients() const { return grad_hidden_.defined() || grad_weight_.defined(); }
  Target target_of(const at::Tensor& labels, bool is_fused) const;
  void add(std::int64_t begin, const at::Tensor& labels);
  Statistics statistics_plain(const at::Tensor& logits, const Target& target) const;
  Statistics statistics_fused(const at::Tensor& logits, const Target& target) const;
  at::Tensor logits_gradient(const at::Tensor& logits, const Statistics& of, const Target& target) const;
  void over_ranks(const at::Tensor& numbers, comm::ReduceOp op) const;
  at::Tensor operand(const at::Tensor& x) const;
  bool is_widening() const;
  at::Tensor product(const at::Tensor& a, const at::Tensor& b) const;
  void add_gradients(const at::Tensor& grad_logits, const at::Tensor& hidden, std::int64_t begin);

  at::Tensor hidden_, weight_, losses_, grad_hidden_, grad_weight_;
  Statistics statistics_;
  Factors factors_;  ///< undefined: 1
  std::optional<VocabularyPart> part_;
  at::ScalarType sum_type_;
  double scale_;
};

/// The rows whose logits must be computed. Counting the targets would wait for a GPU, but costs nothing on CPU: so only
/// the CPU skips rows without a target.
class TargetRows {
 public:
  TargetRows(const at::Tensor& hidden, const at::Tensor& labels);
  const at::Tensor& hidden() const { return hidden_; }
  const at::Tensor& labels() const { return labels_; }
  const at::Tensor& rows() const { return rows_; }  ///< undefined: all are
  /// The given rows of `x`; all if `rows` is undefined.
  static at::Tensor some(const at::Tensor& x, const at::Tensor& rows);
  /// The inverse: [count, ...] with `x` at these rows and zeros elsewhere. An undefined x stays so.
  static at::Tensor among(const at::Tensor& x, const at::Tensor& rows, std::int64_t count);

 private:
  at::Tensor rows_, hidden_, labels_;
};

}  // namespace ops
CAPSTAN_END_NAMESPACE
