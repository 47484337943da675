#include <capstan/nn/head.h>
#include <capstan/ops/cross_entropy.h>
#include "ops/move_rows.h"

#include <utility>

namespace capstan::nn {

VocabularyHead::VocabularyHead(Layer& parent, std::string name, WeightPtr weight)
    : Layer(parent, std::move(name)), weight_(own(std::move(weight), Use::split)) {
  for (auto& record : weight_->records()) {
    if (record.usage == layout::Usage::layer) record.usage = layout::Usage::head;
  }
}

VocabularyHead::~VocabularyHead() = default;

at::Tensor VocabularyHead::forward(const at::Tensor& x, const Batch& batch) const {
  const auto input = before ? before(x) : x;
  return batch.labels.defined() ? loss_sum(input, batch) : last_logits(input, batch);
}

at::Tensor VocabularyHead::loss_sum(const at::Tensor& x, const Batch& batch) const {
  auto rows = x.flatten(0, 1);
  auto labels = batch.labels.flatten();
  if (batch.loss_rows.defined()) {
    rows = ops::pick_rows(rows, batch.loss_rows);
    labels = labels.index_select(0, batch.loss_rows);
  }
  const auto& matrix = weight_->value();
  if (loss) return loss(rows, matrix, labels);
  const bool is_trained = at::GradMode::is_enabled() && matrix.requires_grad();
  const auto chunk = ops::cross_entropy_chunk_rows(matrix.size(0), is_trained);
  return ops::chunked_linear_cross_entropy(rows, matrix, labels, chunk);
}

at::Tensor VocabularyHead::last_logits(const at::Tensor& x, const Batch& batch) const {
  const auto index = batch.last.view({-1, 1, 1}).expand({-1, 1, x.size(-1)});
  const auto logits = at::linear(x.gather(1, index).squeeze(1), weight_->value());
  return after_logits ? after_logits(logits) : logits;
}

}  // namespace capstan::nn
