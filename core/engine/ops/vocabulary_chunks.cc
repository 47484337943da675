#include "ops/vocabulary_chunks.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/softmax_rows.h"

namespace capstan::ops {

VocabularyChunks::VocabularyChunks(HeadProducts& products, std::optional<VocabularyPart> part, bool keeps_statistics)
    : products_(products), part_(std::move(part)) {
  const auto numbers = products.numbers();
  losses_ = at::empty({products.rows()}, numbers);
  if (!keeps_statistics) return;
  const auto column = [&] { return at::empty({products.rows(), 1}, numbers); };
  statistics_ = {column(), column(), column()};
}

void VocabularyChunks::compute(const at::Tensor& labels, std::int64_t chunk_rows) {
  for (std::int64_t begin = 0; begin < labels.size(0); begin += chunk_rows) {
    add(begin, labels.narrow(0, begin, std::min(chunk_rows, labels.size(0) - begin)));
  }
}

void VocabularyChunks::gradients_again(const at::Tensor& labels, std::int64_t chunk_rows,
                                       const Statistics& statistics) {
  for (std::int64_t begin = 0; begin < labels.size(0); begin += chunk_rows) {
    const auto rows = std::min(chunk_rows, labels.size(0) - begin);
    const auto of = [&](const at::Tensor& x) { return x.narrow(0, begin, rows); };
    const Statistics now{of(statistics.maximum), of(statistics.sum), of(statistics.picked)};
    const at::Tensor logits = products_.logits(begin, rows);
    if (!products_.is_fused()) logits.sub_(now.maximum).exp_();
    products_.add_gradients(logits_gradient(logits, now, target_of(of(labels))), begin);
  }
}

void VocabularyChunks::add(std::int64_t begin, const at::Tensor& labels) {
  const auto rows = labels.size(0);
  const at::Tensor logits = products_.logits(begin, rows);
  if (products_.is_fused() && !part_ && products_.wants_gradients() && !statistics_.sum.defined()) {
    const at::Tensor losses = losses_.narrow(0, begin, rows);
    return products_.add_gradients(softmax_loss_(logits, labels, products_.scale(), products_.type(), losses), begin);
  }
  const Target target = target_of(labels);
  const Statistics found = products_.is_fused() ? statistics_fused(logits, target) : statistics_plain(logits, target);
  losses_.narrow(0, begin, rows).copy_((found.sum.log() - found.picked).masked_fill(target.ignored, 0).squeeze(1));
  if (statistics_.sum.defined()) {
    statistics_.maximum.narrow(0, begin, rows).copy_(found.maximum);
    statistics_.sum.narrow(0, begin, rows).copy_(found.sum);
    statistics_.picked.narrow(0, begin, rows).copy_(found.picked);
  }
  if (products_.wants_gradients()) products_.add_gradients(logits_gradient(logits, found, target), begin);
}

VocabularyChunks::Target VocabularyChunks::target_of(const at::Tensor& labels) const {
  const bool is_fused = products_.is_fused();
  const at::Tensor ignored = labels.eq(ignored_label).unsqueeze(1);
  if (!part_) return {ignored, (is_fused ? labels : labels.clamp_min(0)).unsqueeze(1), {}};
  const at::Tensor column = (labels - part_->begin).unsqueeze(1);
  const std::int64_t last = products_.words() - 1;
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
  if (products_.is_fused()) {
    // An infinite sum makes the row of what is no target zero.
    const at::Tensor sum = of.sum.masked_fill(target.ignored, std::numeric_limits<float>::infinity());
    return softmax_gradient_(logits, of.maximum, sum, target.column, products_.scale(), products_.type());
  }
  at::Tensor at_target = (of.picked.exp().div(of.sum) - 1).mul(products_.scale()).masked_fill(target.ignored, 0);
  logits.mul_(of.sum.reciprocal().mul_(products_.scale()).masked_fill(target.ignored, 0));
  if (part_) at_target = at::where(target.elsewhere, logits.gather(1, target.column), at_target);
  logits.scatter_(1, target.column, at_target);
  return logits.to(products_.type());
}

void VocabularyChunks::over_ranks(const at::Tensor& numbers, comm::ReduceOp op) const {
  if (part_) part_->group->all_reduce(numbers, op, part_->label);
}

}  // namespace capstan::ops
