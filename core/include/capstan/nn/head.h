#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/layers.h>

#include <string>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

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
  /// The same for the labels' log-probabilities: -> [N]. A strategy that fills one of the two fills both.
  Port<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)> log_probabilities{*this,
                                                                                              "log_probabilities"};
  /// Applied to logits: [B, this rank's part of the vocabulary] -> [B, vocabulary].
  CommPort after_logits{*this, "after_logits"};

 private:
  /// loss_sum or log_probabilities. Logits are held by the chunk and computed only for the batch's loss_rows.
  at::Tensor of_labels(const at::Tensor& x, const Batch& batch) const;
  /// [B, vocabulary]: the logits of each row's position `last`.
  at::Tensor last_logits(const at::Tensor& x, const Batch& batch) const;
  WeightPtr weight_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
