#include <capstan/base/error.h>
#include <capstan/ops/cross_entropy.h>

#include <algorithm>
#include <limits>
#include <utility>

#include "ops/operator.h"
#include "ops/scaled.h"
#include "ops/softmax_rows.h"

namespace capstan::ops {
namespace {

bool is_16_bit(at::ScalarType type) { return type == at::kBFloat16 || type == at::kHalf; }

/// The chunks of one call: what they read, and what they accumulate into.
class Chunks {
 public:
  Chunks(const at::Tensor& hidden, const at::Tensor& weight, const std::optional<VocabularyPart>& part,
         bool hidden_gradient, bool weight_gradient)
      : hidden_(hidden),
        part_(part),
        sum_type_(hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat),
        in_16_bits_(is_16_bit(hidden.scalar_type())),
        // The gradient of the logits is at most 1, so 2^10 is safe in half (largest number: 65504) and keeps
        // probabilities down to 2^-34 instead of 2^-24. Powers of two round nothing.
        scale_(hidden.scalar_type() == at::kHalf ? 1024.0 : 1.0) {
    weight_ = operand(weight);
    losses_ = at::empty({hidden.size(0)}, hidden.options().dtype(sum_type_));
    if (hidden_gradient) {
      grad_hidden_ = at::empty_like(hidden, at::MemoryFormat::Contiguous);
    }
    if (weight_gradient) {
      const auto options = weight.options().dtype(sum_type_);
      grad_weight_ = hidden.size(0) > 0 ? at::empty(weight.sizes(), options) : at::zeros(weight.sizes(), options);
    }
  }

  void add(std::int64_t begin, std::int64_t rows, const at::Tensor& labels) {
    const at::Tensor hidden = operand(hidden_.narrow(0, begin, rows));
    const at::Tensor logits = product(hidden, weight_.t());
    // A GPU makes two fused passes over the logits; the CPU's plain one is their reference.
    if (logits.is_cpu() || sum_type_ != at::kFloat) return add_plain(logits, hidden, begin, labels);
    add_fused(logits, hidden, begin, labels);
  }

  /// Added in float64: one rounding, whatever the number of rows.
  at::Tensor loss() const { return losses_.sum(at::kDouble).to(sum_type_); }
  const at::Tensor& grad_hidden() const { return grad_hidden_; }
  const at::Tensor& grad_weight() const { return grad_weight_; }

 private:
  void add_plain(const at::Tensor& logits, const at::Tensor& hidden, std::int64_t begin, const at::Tensor& labels) {
    const auto rows = labels.size(0);
    const at::Tensor ignored = labels.eq(ignored_label).unsqueeze(1);
    const Target target = target_of(labels);
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
    losses_.narrow(0, begin, rows).copy_((sum.log() - picked).masked_fill(ignored, 0).squeeze(1));
    if (!grad_hidden_.defined() && !grad_weight_.defined()) {
      return;
    }
    // softmax - onehot, in place: the logits are not needed again.
    at::Tensor at_target = (picked.exp().div(sum) - 1).mul(scale_).masked_fill(ignored, 0);
    logits.mul_(sum.reciprocal().mul_(scale_).masked_fill(ignored, 0));
    if (part_) at_target = at::where(target.elsewhere, logits.gather(1, target.column), at_target);
    logits.scatter_(1, target.column, at_target);
    add_gradients(operand(logits.to(hidden_.scalar_type())), hidden, begin, rows);
  }

  void add_fused(const at::Tensor& logits, const at::Tensor& hidden, std::int64_t begin, const at::Tensor& labels) {
    if (!part_ && (grad_hidden_.defined() || grad_weight_.defined())) {
      const at::Tensor losses = losses_.narrow(0, begin, labels.size(0));
      return add_gradients(softmax_loss_(logits, labels, scale_, hidden_.scalar_type(), losses), hidden, begin,
                           labels.size(0));
    }
    const at::Tensor ignored = labels.eq(ignored_label).unsqueeze(1);
    const at::Tensor column = (part_ ? labels - part_->begin : labels).unsqueeze(1);
    auto [maximum, sum, picked] = softmax_statistics(logits, column);
    if (part_) {
      const at::Tensor own = maximum.clone();
      over_ranks(maximum, comm::ReduceOp::max);
      const at::Tensor elsewhere = column.lt(0).logical_or(column.ge(weight_.size(0)));
      at::Tensor both = at::cat({(picked - maximum).masked_fill(elsewhere, 0), sum * (own - maximum).exp()}, 1);
      over_ranks(both, comm::ReduceOp::sum);
      picked = both.narrow(1, 0, 1);
      sum = both.narrow(1, 1, 1);
    } else {
      picked = picked - maximum;
    }
    losses_.narrow(0, begin, labels.size(0)).copy_((sum.log() - picked).masked_fill(ignored, 0).squeeze(1));
    if (!grad_hidden_.defined() && !grad_weight_.defined()) return;
    // An infinite sum makes the row of what is no target zero.
    sum = sum.masked_fill(ignored, std::numeric_limits<float>::infinity());
    add_gradients(softmax_gradient_(logits, maximum, sum, column, scale_, hidden_.scalar_type()), hidden, begin,
                  labels.size(0));
  }

  /// Where each row's label is among this rank's logits.
  struct Target {
    at::Tensor column;     ///< [rows, 1]; arbitrary if the label is on another rank or ignored
    at::Tensor elsewhere;  ///< [rows, 1] bool: another rank has it; undefined: none has
  };
  Target target_of(const at::Tensor& labels) const {
    if (!part_) return {labels.clamp_min(0).unsqueeze(1), {}};
    const at::Tensor column = (labels - part_->begin).unsqueeze(1);
    const std::int64_t last = weight_.size(0) - 1;
    return {column.clamp(0, last), column.lt(0).logical_or(column.gt(last))};
  }

  void over_ranks(const at::Tensor& numbers, comm::ReduceOp op) const {
    if (part_) part_->group->all_reduce(numbers, op, part_->label);
  }

  /// The input of the products: 16-bit numbers as they are if the device accumulates them in float32 (CUDA's tensor
  /// cores), else widened, which gives the same products.
  at::Tensor operand(const at::Tensor& x) const { return x.is_cpu() ? x.to(sum_type_) : x; }
  bool widening() const { return in_16_bits_ && !hidden_.is_cpu(); }

  at::Tensor product(const at::Tensor& a, const at::Tensor& b) const {
    return widening() ? at::mm(a, b, at::kFloat) : at::mm(a, b);
  }

  void add_gradients(const at::Tensor& grad_logits, const at::Tensor& hidden, std::int64_t begin, std::int64_t rows) {
    if (grad_hidden_.defined()) {
      at::Tensor gradient = product(grad_logits, weight_);
      if (scale_ != 1) {
        gradient.div_(scale_);
      }
      grad_hidden_.narrow(0, begin, rows).copy_(gradient);
    }
    const double keep = begin == 0 ? 0 : 1;  // the first chunk writes: what was there is not read
    if (grad_weight_.defined() && widening()) {
      at::addmm_out(grad_weight_, grad_weight_, grad_logits.t(), hidden, at::kFloat, keep, 1 / scale_);
    } else if (grad_weight_.defined()) {
      grad_weight_.addmm_(grad_logits.t(), hidden, keep, 1 / scale_);
    }
  }

  at::Tensor hidden_, weight_, losses_, grad_hidden_, grad_weight_;
  const std::optional<VocabularyPart>& part_;
  at::ScalarType sum_type_;
  bool in_16_bits_;
  double scale_;
};

class CrossEntropyFunction : public Function<CrossEntropyFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& hidden, const at::Tensor& weight,
                            const at::Tensor& labels, std::int64_t chunk_rows, bool gradients,
                            const std::optional<VocabularyPart>& part) {
    // Counting the targets would wait for a GPU, but costs nothing on CPU: so only the CPU skips rows without a target.
    at::Tensor rows;
    if (hidden.is_cpu()) {
      rows = labels.ne(ignored_label).nonzero().squeeze(1);
    }
    const at::Tensor used = rows.defined() ? hidden.index_select(0, rows) : hidden;
    const at::Tensor targets = rows.defined() ? labels.index_select(0, rows) : labels;
    Chunks chunks(used, weight, part, gradients && hidden.requires_grad(), gradients && weight.requires_grad());
    const std::int64_t total = used.size(0);
    for (std::int64_t begin = 0; begin < total; begin += chunk_rows) {
      const std::int64_t count = std::min(chunk_rows, total - begin);
      chunks.add(begin, count, targets.narrow(0, begin, count));
    }
    at::Tensor grad_hidden = chunks.grad_hidden();
    if (rows.defined() && grad_hidden.defined()) {
      grad_hidden = at::zeros_like(hidden, at::MemoryFormat::Contiguous).index_copy_(0, rows, grad_hidden);
    }
    ctx->save_for_backward({grad_hidden, chunks.grad_weight()});
    ctx->saved_data["dtype"] = hidden.scalar_type();
    return chunks.loss();
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const at::ScalarType type = ctx->saved_data["dtype"].toScalarType();
    const auto saved = ctx->get_saved_variables();
    return {times(saved[0], gradients[0], type), times(saved[1], gradients[0], type), {}, {}, {}, {}};
  }

 private:
  static at::Tensor times(const at::Tensor& saved, const at::Tensor& factor, at::ScalarType type) {
    return saved.defined() ? scaled(saved, factor, type) : at::Tensor();
  }
};

void check(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels, std::int64_t chunk_rows) {
  CAPSTAN_ASSERT(hidden.dim() == 2 && weight.dim() == 2 && labels.dim() == 1);
  CAPSTAN_ASSERT(hidden.size(0) == labels.size(0) && hidden.size(1) == weight.size(1) && weight.size(0) > 0);
  CAPSTAN_ASSERT(hidden.scalar_type() == weight.scalar_type() && labels.scalar_type() == at::kLong);
  CAPSTAN_ASSERT(chunk_rows >= 1);
}

}  // namespace

at::Tensor chunked_linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                        std::int64_t chunk_rows) {
  check(hidden, weight, labels, chunk_rows);
  return CrossEntropyFunction::apply(hidden, weight, labels, chunk_rows, at::GradMode::is_enabled(),
                                     std::optional<VocabularyPart>());
}

at::Tensor split_linear_cross_entropy(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                                      std::int64_t chunk_rows, const VocabularyPart& part) {
  check(hidden, weight, labels, chunk_rows);
  CAPSTAN_ASSERT(part.group != nullptr);
  return CrossEntropyFunction::apply(hidden, weight, labels, chunk_rows, at::GradMode::is_enabled(),
                                     std::optional(part));
}

std::int64_t cross_entropy_chunk_rows(std::int64_t vocabulary, bool trains_weight) {
  constexpr std::int64_t tile = 256;   // what products compute at once: no part of one is left over
  constexpr std::int64_t deep = 2048;  // rows in a product whose result, as large as the matrix, is read and written
  constexpr std::int64_t logits = std::int64_t{1} << 28;
  const auto rows_of = [&](std::int64_t count) { return count / vocabulary / tile * tile; };
  const auto rows = trains_weight ? std::max(rows_of(logits), std::min(deep, rows_of(2 * logits))) : rows_of(logits);
  return std::max(tile, rows);
}

}  // namespace capstan::ops
