#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/layers.h>
#include <capstan/ops/cross_entropy.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// How a head's logits are computed, the same on all ranks that share the matrix.
struct HeadSplit {
  std::int64_t chunk_rows = 1;                   ///< how many rows of logits to hold at a time
  std::optional<ops::VocabularyPart> part = {};  ///< where each rank has some of the matrix's rows
};

/// What a head gives a pass's function (HeadOutput::function). There are M rows: the batch's loss_rows.
struct HeadInput {
  const Batch& batch;
  at::Tensor states;                     ///< [M, hidden]: what the matrix is to be multiplied with
  at::Tensor matrix;                     ///< [vocabulary, hidden], or this rank's rows of it
  at::Tensor labels;                     ///< [M] int64; ops::ignored_label: there is none
  HeadSplit split;                       ///< for capstan/ops/head_products.h and losses of capstan/ops
  std::function<at::Tensor()> loss_sum;  ///< computes HeadOutput::loss_sum
};

/// The output matrix [vocabulary, hidden], often the embedding's: from hidden states to the loss, to the
/// labels' log-probabilities or to logits.
class VocabularyHead : public Layer {
 public:
  VocabularyHead(Layer& parent, std::string name, WeightPtr weight);
  ~VocabularyHead() override;
  /// x [B, S, hidden], normed -> the batch's pass.output.
  at::Tensor forward(const at::Tensor& x, const Batch& batch) const;

  WeightSplit may_split() const { return WeightSplit::vocabulary; }
  const WeightPtr& weight() const { return weight_; }

  CommPort before{*this, "before"};  ///< on x
  /// Replaces the loss where the matrix is split: (x [N, hidden], matrix, labels [N]) -> loss sum over the N rows whose
  /// logits are to be computed.
  Port<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)> loss{*this, "loss"};
  /// The same for the labels' log-probabilities: -> [N]. A strategy that fills one of these three ports for labels
  /// fills all.
  Port<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)> log_probabilities{*this,
                                                                                              "log_probabilities"};
  /// Filled like them: how the matrix is split, for a pass's function.
  Port<HeadSplit()> split{*this, "split"};
  /// Applied to logits: [B, this rank's part of the vocabulary] -> [B, vocabulary].
  CommPort after_logits{*this, "after_logits"};

 private:
  /// All but last_logits. Logits are held by the chunk and computed only for the batch's loss_rows.
  at::Tensor of_labels(const at::Tensor& x, const Batch& batch) const;
  at::Tensor loss_sum(const at::Tensor& rows, const at::Tensor& labels) const;
  at::Tensor log_probabilities_of(const at::Tensor& rows, const at::Tensor& labels) const;
  at::Tensor of_function(const at::Tensor& rows, const at::Tensor& labels, const Batch& batch) const;
  std::int64_t chunk_rows() const;
  /// [B, vocabulary]: the logits of each row's position `last`.
  at::Tensor last_logits(const at::Tensor& x, const Batch& batch) const;
  WeightPtr weight_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
