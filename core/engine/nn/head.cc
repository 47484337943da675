#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/nn/head.h>
#include <capstan/ops/cross_entropy.h>
#include <capstan/ops/label_log_probabilities.h>

#include <utility>

#include "ops/move_rows.h"

namespace capstan::nn {
namespace {

// A strategy that splits the matrix fills all ports for labels.
void refuse_empty(const VocabularyHead& head, const PortBase& wanted) {
  for (const PortBase* filled :
       {static_cast<const PortBase*>(&head.loss), static_cast<const PortBase*>(&head.log_probabilities),
        static_cast<const PortBase*>(&head.split)}) {
    if (filled->owner().empty()) continue;
    throw Error(
        cat("strategy ", filled->owner(), " fills port ", filled->name(), " of layer ", head.path(), ", but not ",
            wanted.name(), ", which the objective needs"),
        cat("choose an objective that uses ", filled->name(), ", or let the strategy fill all ports for labels"));
  }
}

constexpr std::int64_t pack = 8;  // 16-bit numbers in 16 bytes

// By which rows meet a bias.
at::Tensor with_one(const at::Tensor& rows) {
  return at::cat(
      {rows, at::ones({rows.size(0), 1}, rows.options()), at::zeros({rows.size(0), pack - 1}, rows.options())}, 1);
}

void mark_as_head(Weight& weight) {
  for (auto& record : weight.records()) {
    if (record.usage == layout::Usage::layer) record.usage = layout::Usage::head;
  }
}

}  // namespace

VocabularyHead::VocabularyHead(Layer& parent, std::string name, WeightPtr weight, std::optional<double> cap,
                               WeightPtr bias)
    : Layer(parent, std::move(name)), weight_(own(std::move(weight), Use::split)), cap_(cap) {
  mark_as_head(*weight_);
  if (!bias) return;
  bias_ = own(std::move(bias), Use::split);
  mark_as_head(*bias_);
}

VocabularyHead::~VocabularyHead() = default;

std::vector<HeadOutput> VocabularyHead::outputs() {
  return {HeadOutput::loss_sum, HeadOutput::log_probabilities, HeadOutput::last_logits, HeadOutput::states,
          HeadOutput::function};
}

at::Tensor VocabularyHead::matrix() const {
  const auto& weight = weight_->value();
  if (!bias_) return weight;
  return at::cat({weight, bias_->value().unsqueeze(1), at::zeros({weight.size(0), pack - 1}, weight.options())}, 1);
}

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
  if (bias_) rows = with_one(rows);
  switch (batch.pass.output) {
    case HeadOutput::states:
      return rows;
    case HeadOutput::function:
      return of_function(rows, labels, batch);
    case HeadOutput::log_probabilities:
      return log_probabilities_of(rows, labels);
    default:
      return loss_sum(rows, labels);
  }
}

std::int64_t VocabularyHead::chunk_rows() const {
  const auto& matrix = weight_->value();
  const bool is_trained = at::GradMode::is_enabled() && matrix.requires_grad();
  return ops::cross_entropy_chunk_rows(matrix.size(0), is_trained);
}

at::Tensor VocabularyHead::loss_sum(const at::Tensor& rows, const at::Tensor& labels) const {
  if (loss) return loss(rows, matrix(), labels);
  refuse_empty(*this, loss);
  return ops::chunked_linear_cross_entropy(rows, matrix(), labels, chunk_rows(), cap_);
}

at::Tensor VocabularyHead::log_probabilities_of(const at::Tensor& rows, const at::Tensor& labels) const {
  if (log_probabilities) return log_probabilities(rows, matrix(), labels);
  refuse_empty(*this, log_probabilities);
  return ops::chunked_label_log_probabilities(rows, matrix(), labels, chunk_rows(), cap_);
}

at::Tensor VocabularyHead::of_function(const at::Tensor& rows, const at::Tensor& labels, const Batch& batch) const {
  CAPSTAN_ASSERT(batch.pass.function);
  if (!split) refuse_empty(*this, split);
  const auto own = split ? split() : HeadSplit{ops::cross_entropy_chunk_rows(weight_->value().size(0)), {}, cap_};
  return batch.pass.function({batch, rows, matrix(), labels, own, [&] { return loss_sum(rows, labels); }});
}

at::Tensor VocabularyHead::last_logits(const at::Tensor& x, const Batch& batch) const {
  const auto index = batch.last.view({-1, 1, 1}).expand({-1, 1, x.size(-1)});
  auto logits = at::linear(x.gather(1, index).squeeze(1), weight_->value(), bias_ ? bias_->value() : at::Tensor());
  if (cap_) logits = (logits / *cap_).tanh() * *cap_;
  return after_logits ? after_logits(logits) : logits;
}

ValueHead::ValueHead(Layer& parent, std::string name, WeightPtr weight)
    : Layer(parent, std::move(name)), weight_(own(std::move(weight), Use::split)) {
  for (auto& record : weight_->records()) record.usage = layout::Usage::head;
}

ValueHead::~ValueHead() = default;

std::vector<HeadOutput> ValueHead::outputs() { return {HeadOutput::values}; }

at::Tensor ValueHead::forward(const at::Tensor& x, const Batch& batch) const {
  if (!batch.labels.defined() || batch.pass.output != HeadOutput::values) {
    throw Error(cat("layer ", path(), " gives values, and something else is asked of the model's head"),
                "let the model declare what its head gives (nn::ModelFacts::outputs)");
  }
  const auto rows = (before ? before(x) : x).flatten(0, 1);
  return at::linear(batch.loss_rows.defined() ? ops::pick_rows(rows, batch.loss_rows) : rows, weight_->value());
}

}  // namespace capstan::nn
