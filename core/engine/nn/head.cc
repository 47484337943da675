#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/nn/head.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/label_log_probabilities.h>

#include <utility>

#include "ops/move_rows.h"

namespace capstan::nn {
namespace {

Error only_one_port_filled(const VocabularyHead& head) {
  const auto& filled = head.loss ? head.loss : head.log_probabilities;
  const auto& empty = head.loss ? head.log_probabilities : head.loss;
  return Error(cat("strategy ", filled.owner(), " fills port ", filled.name(), " of layer ", head.path(), ", but not ",
                   empty.name(), ", which the objective needs"),
               cat("choose an objective that uses ", filled.name(), ", or let the strategy fill both ports"));
}

}  // namespace

VocabularyHead::VocabularyHead(Layer& parent, std::string name, WeightPtr weight)
    : Layer(parent, std::move(name)), weight_(own(std::move(weight), Use::split)) {
  for (auto& record : weight_->records()) {
    if (record.usage == layout::Usage::layer) record.usage = layout::Usage::head;
  }
}

VocabularyHead::~VocabularyHead() = default;

at::Tensor VocabularyHead::forward(const at::Tensor& x, const Batch& batch) const {
  const auto input = before ? before(x) : x;
  const bool has_labels = batch.labels.defined() && batch.pass.output != HeadOutput::last_logits;
  return has_labels ? of_labels(input, batch) : last_logits(input, batch);
}

at::Tensor VocabularyHead::of_labels(const at::Tensor& x, const Batch& batch) const {
  auto rows = x.flatten(0, 1);
  auto labels = batch.labels.flatten();
  if (batch.loss_rows.defined()) {
    rows = ops::pick_rows(rows, batch.loss_rows);
    labels = labels.index_select(0, batch.loss_rows);
  }
  const auto& matrix = weight_->value();
  const bool is_sum = batch.pass.output == HeadOutput::loss_sum;
  if (const auto& port = is_sum ? loss : log_probabilities) return port(rows, matrix, labels);
  if (loss || log_probabilities) throw only_one_port_filled(*this);
  const bool is_trained = at::GradMode::is_enabled() && matrix.requires_grad();
  const auto chunk = ops::cross_entropy_chunk_rows(matrix.size(0), is_trained);
  return is_sum ? ops::chunked_linear_cross_entropy(rows, matrix, labels, chunk)
                : ops::chunked_label_log_probabilities(rows, matrix, labels, chunk);
}

at::Tensor VocabularyHead::last_logits(const at::Tensor& x, const Batch& batch) const {
  const auto index = batch.last.view({-1, 1, 1}).expand({-1, 1, x.size(-1)});
  const auto logits = at::linear(x.gather(1, index).squeeze(1), weight_->value());
  return after_logits ? after_logits(logits) : logits;
}

}  // namespace capstan::nn
