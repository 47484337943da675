#include "ops/vocabulary_chunks.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/softmax_rows.h"

namespace capstan::ops {

void check_loss_inputs(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                       std::int64_t chunk_rows) {
  CAPSTAN_ASSERT(hidden.dim() == 2 && weight.dim() == 2 && labels.dim() == 1);
  CAPSTAN_ASSERT(hidden.size(0) == labels.size(0) && hidden.size(1) == weight.size(1) && weight.size(0) > 0);
  CAPSTAN_ASSERT(hidden.scalar_type() == weight.scalar_type() && labels.scalar_type() == at::kLong);
  CAPSTAN_ASSERT(chunk_rows >= 1);
}

// The gradient of the logits is at most 1, so a scale of 2^10 is safe in half (largest number: 65504) and keeps
// probabilities down to 2^-34 instead of 2^-24. Powers of two round nothing.
VocabularyChunks::VocabularyChunks(const at::Tensor& hidden, const at::Tensor& weight,
                                   std::optional<VocabularyPart> part, const Wanted& wanted)
    : hidden_(hidden),
      part_(std::move(part)),
      sum_type_(hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat),
      scale_(hidden.scalar_type() == at::kHalf ? 1024.0 : 1.0) {
  weight_ = operand(weight);
  const auto numbers = hidden.options().dtype(sum_type_);
  losses_ = at::empty({hidden.size(0)}, numbers);
  if (wanted.statistics) {
    const auto column = [&] { return at::empty({hidden.size(0), 1}, numbers); };
    statistics_ = {column(), column(), column()};
  }
  if (wanted.hidden_gradient) grad_hidden_ = at::empty_like(hidden, at::MemoryFormat::Contiguous);
  if (wanted.weight_gradient) {
    const auto options = weight.options().dtype(sum_type_);
    grad_weight_ = hidden.size(0) > 0 ? at::empty(weight.sizes(), options) : at::zeros(weight.sizes(), options);
  }
}

void VocabularyChunks::compute(const at::Tensor& labels, std::int64_t chunk_rows) {
  for (std::int64_t begin = 0; begin < labels.size(0); begin += chunk_rows) {
    add(begin, labels.narrow(0, begin, std::min(chunk_rows, labels.size(0) - begin)));
  }
}

void VocabularyChunks::gradients_again(const at::Tensor& labels, std::int64_t chunk_rows, const Statistics& statistics,
                                       const Factors& factors) {
  factors_ = factors;
  for (std::int64_t begin = 0; begin < labels.size(0); begin += chunk_rows) {
    const auto rows = std::min(chunk_rows, labels.size(0) - begin);
    const auto of = [&](const at::Tensor& x) { return x.narrow(0, begin, rows); };
    const Statistics now{of(statistics.maximum), of(statistics.sum), of(statistics.picked)};
    const at::Tensor hidden = operand(of(hidden_));
    const at::Tensor logits = product(hidden, weight_.t());
    if (!is_fused(logits)) logits.sub_(now.maximum).exp_();
    add_gradients(logits_gradient(logits, now, target_of(of(labels), is_fused(logits))), hidden, begin);
  }
}

void VocabularyChunks::add(std::int64_t begin, const at::Tensor& labels) {
  const auto rows = labels.size(0);
  const at::Tensor hidden = operand(hidden_.narrow(0, begin, rows));
  const at::Tensor logits = product(hidden, weight_.t());
  const bool fused = is_fused(logits);
  if (fused && !part_ && wants_gradients() && !statistics_.sum.defined()) {
    const at::Tensor losses = losses_.narrow(0, begin, rows);
    return add_gradients(softmax_loss_(logits, labels, scale_, hidden_.scalar_type(), losses), hidden, begin);
  }
  const Target target = target_of(labels, fused);
  const Statistics found = fused ? statistics_fused(logits, target) : statistics_plain(logits, target);
  losses_.narrow(0, begin, rows).copy_((found.sum.log() - found.picked).masked_fill(target.ignored, 0).squeeze(1));
  if (statistics_.sum.defined()) {
    statistics_.maximum.narrow(0, begin, rows).copy_(found.maximum);
    statistics_.sum.narrow(0, begin, rows).copy_(found.sum);
    statistics_.picked.narrow(0, begin, rows).copy_(found.picked);
  }
  if (wants_gradients()) add_gradients(logits_gradient(logits, found, target), hidden, begin);
}

// A GPU makes two fused passes over the logits; the CPU's plain one is their reference.
bool VocabularyChunks::is_fused(const at::Tensor& logits) const { return !logits.is_cpu() && sum_type_ == at::kFloat; }

VocabularyChunks::Target VocabularyChunks::target_of(const at::Tensor& labels, bool is_fused) const {
  const at::Tensor ignored = labels.eq(ignored_label).unsqueeze(1);
  if (!part_) return {ignored, (is_fused ? labels : labels.clamp_min(0)).unsqueeze(1), {}};
  const at::Tensor column = (labels - part_->begin).unsqueeze(1);
  const std::int64_t last = weight_.size(0) - 1;
  return {ignored, is_fused ? column : column.clamp(0, last), column.lt(0).logical_or(column.gt(last))};
}

/// Leaves exp(logit - maximum) in the logits' place.
VocabularyChunks::Statistics VocabularyChunks::statistics_plain(const at::Tensor& logits, const Target& target) const {
  at::Tensor maximum = logits.amax(1, true);
  over_ranks(maximum, comm::ReduceOp::max);
  logits.sub_(maximum);
  at::Tensor picked = logits.gather(1, target.column);
  logits.exp_();
  at::Tensor sum = logits.sum(1, true);
  if (part_) {
    at::Tensor both = at::cat({picked.masked_fill(target.elsewhere, 0), sum}, 1);
    over_ranks(both, comm::ReduceOp::sum);
    picked = both.narrow(1, 0, 1);
    sum = both.narrow(1, 1, 1);
  }
  return {maximum, sum, picked};
}

/// Leaves the logits as they are.
VocabularyChunks::Statistics VocabularyChunks::statistics_fused(const at::Tensor& logits, const Target& target) const {
  auto [maximum, sum, picked] = softmax_statistics(logits, target.column);
  if (!part_) return {maximum, sum, picked - maximum};
  const at::Tensor own = maximum.clone();
  over_ranks(maximum, comm::ReduceOp::max);
  at::Tensor both = at::cat({(picked - maximum).masked_fill(target.elsewhere, 0), sum * (own - maximum).exp()}, 1);
  over_ranks(both, comm::ReduceOp::sum);
  return {maximum, both.narrow(1, 1, 1), both.narrow(1, 0, 1)};
}

/// softmax - onehot, times the scale and in the inputs' dtype, in place: the logits are not needed again. They are what
/// the statistics have left of them.
at::Tensor VocabularyChunks::logits_gradient(const at::Tensor& logits, const Statistics& of,
                                             const Target& target) const {
  if (is_fused(logits)) {
    // An infinite sum makes the row of what is no target zero.
    const at::Tensor sum = of.sum.masked_fill(target.ignored, std::numeric_limits<float>::infinity());
    return softmax_gradient_(logits, of.maximum, sum, target.column, scale_, hidden_.scalar_type());
  }
  at::Tensor at_target = (of.picked.exp().div(of.sum) - 1).mul(scale_).masked_fill(target.ignored, 0);
  logits.mul_(of.sum.reciprocal().mul_(scale_).masked_fill(target.ignored, 0));
  if (part_) at_target = at::where(target.elsewhere, logits.gather(1, target.column), at_target);
  logits.scatter_(1, target.column, at_target);
  return operand(logits.to(hidden_.scalar_type()));
}

void VocabularyChunks::over_ranks(const at::Tensor& numbers, comm::ReduceOp op) const {
  if (part_) part_->group->all_reduce(numbers, op, part_->label);
}

/// The input of the products: 16-bit numbers as they are if the device accumulates them in float32 (CUDA's tensor
/// cores), else widened, which gives the same products.
at::Tensor VocabularyChunks::operand(const at::Tensor& x) const { return x.is_cpu() ? x.to(sum_type_) : x; }

bool VocabularyChunks::is_widening() const { return hidden_.scalar_type() != sum_type_ && !hidden_.is_cpu(); }

at::Tensor VocabularyChunks::product(const at::Tensor& a, const at::Tensor& b) const {
  return is_widening() ? at::mm(a, b, at::kFloat) : at::mm(a, b);
}

void VocabularyChunks::add_gradients(const at::Tensor& grad_logits, const at::Tensor& hidden, std::int64_t begin) {
  const auto rows = hidden.size(0);
  if (grad_hidden_.defined()) {
    at::Tensor gradient = product(grad_logits, weight_);
    if (scale_ != 1) gradient.div_(scale_);
    if (factors_.of_hidden.defined()) gradient.mul_(factors_.of_hidden.narrow(0, begin, rows));
    grad_hidden_.narrow(0, begin, rows).copy_(gradient);
  }
  if (!grad_weight_.defined()) return;
  at::Tensor states = hidden;
  if (factors_.of_weight.defined()) {  // they act on the states, which are smaller than the logits
    states = at::empty_like(hidden);
    at::mul_out(states, hidden, factors_.of_weight.narrow(0, begin, rows));
  }
  const double keep = begin == 0 ? 0 : 1;  // the first chunk writes: what was there is not read
  if (is_widening()) {
    at::addmm_out(grad_weight_, grad_weight_, grad_logits.t(), states, at::kFloat, keep, 1 / scale_);
  } else {
    grad_weight_.addmm_(grad_logits.t(), states, keep, 1 / scale_);
  }
}

TargetRows::TargetRows(const at::Tensor& hidden, const at::Tensor& labels) {
  if (hidden.is_cpu()) rows_ = labels.ne(ignored_label).nonzero().squeeze(1);
  hidden_ = some(hidden, rows_);
  labels_ = some(labels, rows_);
}

at::Tensor TargetRows::some(const at::Tensor& x, const at::Tensor& rows) {
  return rows.defined() ? x.index_select(0, rows) : x;
}

at::Tensor TargetRows::among(const at::Tensor& x, const at::Tensor& rows, std::int64_t count) {
  if (!rows.defined() || !x.defined()) return x;
  auto sizes = x.sizes().vec();
  sizes[0] = count;
  return at::zeros(sizes, x.options()).index_copy_(0, rows, x);
}

}  // namespace capstan::ops
