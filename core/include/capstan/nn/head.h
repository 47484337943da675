#pragma once
#include <capstan/base/export.h>
#include <capstan/nn/batch.h>
#include <capstan/nn/layers.h>
#include <capstan/ops/cross_entropy.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

CAPSTAN_BEGIN_NAMESPACE
namespace nn {

/// How a head's logits are computed, the same on all ranks that share the matrix.
struct HeadSplit {
  std::int64_t chunk_rows = 1;                   ///< how many rows of logits to hold at a time
  std::optional<ops::VocabularyPart> part = {};  ///< where each rank has some of the matrix's rows
  std::optional<double> cap = {};  ///< logits are cap · tanh(product / cap) (Gemma 2); unset: the product
};

/// What a head gives a pass's function (HeadOutput::function). There are M rows: the batch's loss_rows.
struct HeadInput {
  const Batch& batch;
  at::Tensor states;                     ///< [M, width]: what the matrix is to be multiplied with
  at::Tensor matrix;                     ///< [vocabulary, width] (VocabularyHead::matrix), or this rank's rows of it
  at::Tensor labels;                     ///< [M] int64; ops::ignored_label: there is none
  HeadSplit split;                       ///< for capstan/ops/head_products.h and losses of capstan/ops
  std::function<at::Tensor()> loss_sum;  ///< computes HeadOutput::loss_sum
};

/// The output matrix [vocabulary, hidden], often the embedding's: from hidden states to the loss, to the
/// labels' log-probabilities or to logits.
class VocabularyHead : public Layer {
 public:
  /// `cap`: see HeadSplit::cap. `bias` [vocabulary]: null if there is none.
  VocabularyHead(Layer& parent, std::string name, WeightPtr weight, std::optional<double> cap = {},
                 WeightPtr bias = nullptr);
  ~VocabularyHead() override;
  /// x [B, S, hidden], normed -> the batch's pass.output.
  at::Tensor forward(const at::Tensor& x, const Batch& batch) const;
  /// What such a head gives, for ModelFacts::outputs: all but values.
  static std::vector<HeadOutput> outputs();

  WeightSplit may_split() const { return WeightSplit::vocabulary; }
  const WeightPtr& weight() const { return weight_; }
  const WeightPtr& bias() const { return bias_; }
  const std::optional<double>& cap() const { return cap_; }
  /// [vocabulary, width]: what states, as HeadOutput::states has them, are multiplied with: the weight; a bias is one
  /// more column of it, and then come zeros up to whole packs of 16 bytes.
  at::Tensor matrix() const;

  /// On x. Called in every forward, whatever its output is.
  CommPort before{*this, "before"};
  /// Replaces the loss where the matrix is split: (x [N, width], matrix(), labels [N]) -> loss sum over the N rows
  /// whose logits are to be computed. Called where the output is loss_sum, and for the loss beside a divergence.
  Port<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)> loss{*this, "loss"};
  /// The same for the labels' log-probabilities: -> [N]. Called where the output is log_probabilities. A strategy that
  /// fills one of these three ports for labels fills all.
  Port<at::Tensor(const at::Tensor&, const at::Tensor&, const at::Tensor&)> log_probabilities{*this,
                                                                                              "log_probabilities"};
  /// Filled like them: how the matrix is split, for a pass's function. Called where the output is `function`.
  Port<HeadSplit()> split{*this, "split"};
  /// Applied to logits: [B, this rank's part of the vocabulary] -> [B, vocabulary]. Called where the output is
  /// last_logits, that is when a model generates.
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
  std::optional<double> cap_;
  WeightPtr bias_;
};

/// A matrix [values, hidden] in a VocabularyHead's place: a few numbers of each position, such as a reward or the
/// logits of classes. It is never split.
class ValueHead : public Layer {
 public:
  ValueHead(Layer& parent, std::string name, WeightPtr weight);
  ~ValueHead() override;
  /// x [B, S, hidden], normed -> x W^T of each of the batch's loss_rows [M, values]. Throws Error for a pass that wants
  /// anything but HeadOutput::values.
  at::Tensor forward(const at::Tensor& x, const Batch& batch) const;
  /// What such a head gives, for ModelFacts::outputs.
  static std::vector<HeadOutput> outputs();
  const WeightPtr& weight() const { return weight_; }

  /// On x, so that a rank with some of the positions sees all of them. Called in every forward.
  CommPort before{*this, "before"};

 private:
  WeightPtr weight_;
};

}  // namespace nn
CAPSTAN_END_NAMESPACE
