#include <capstan/ops/head_products.h>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/ops/cross_entropy.h>

#include "ops/operator.h"
#include "ops/scaled.h"

namespace capstan::ops {
namespace {

// One that is not needed is undefined.
struct LossGradients {
  at::Tensor hidden;
  at::Tensor weight;  ///< may be wider than the weight
};

class WithGradients : public Function<WithGradients> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& loss, const at::Tensor& hidden,
                            const at::Tensor& /*weight*/, const LossGradients& gradients) {
    ctx->save_for_backward({gradients.hidden, gradients.weight});
    ctx->saved_data["dtype"] = hidden.scalar_type();
    return loss.clone();
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const at::ScalarType type = ctx->saved_data["dtype"].toScalarType();
    const auto saved = ctx->get_saved_variables();
    return {{}, times(saved[0], gradients[0], type), times(saved[1], gradients[0], type), {}};
  }

 private:
  static at::Tensor times(const at::Tensor& saved, const at::Tensor& factor, at::ScalarType type) {
    return saved.defined() ? scaled(saved, factor, type) : at::Tensor();
  }
};

}  // namespace

void check_loss_inputs(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                       std::int64_t chunk_rows) {
  CAPSTAN_ASSERT(hidden.dim() == 2 && weight.dim() == 2 && labels.dim() == 1);
  CAPSTAN_ASSERT(hidden.size(0) == labels.size(0) && hidden.size(1) == weight.size(1) && weight.size(0) > 0);
  CAPSTAN_ASSERT(hidden.scalar_type() == weight.scalar_type() && labels.scalar_type() == at::kLong);
  CAPSTAN_ASSERT(chunk_rows >= 1);
}

// The gradient of the logits is at most 1, so a scale of 2^10 is safe in half (largest number: 65504) and keeps
// probabilities down to 2^-34 instead of 2^-24. Powers of two round nothing.
HeadProducts::HeadProducts(const at::Tensor& hidden, const at::Tensor& weight, const Wanted& wanted,
                           std::optional<double> cap)
    : sum_type_(hidden.scalar_type() == at::kDouble ? at::kDouble : at::kFloat),
      scale_(hidden.scalar_type() == at::kHalf ? 1024.0 : 1.0),
      hidden_(hidden),
      cap_(cap) {
  weight_ = operand(weight);
  if (wanted.hidden_gradient) grad_hidden_ = at::empty_like(hidden, at::MemoryFormat::Contiguous);
  if (wanted.weight_gradient) {
    const auto options = weight.options().dtype(sum_type_);
    grad_weight_ = hidden.size(0) > 0 ? at::empty(weight.sizes(), options) : at::zeros(weight.sizes(), options);
  }
}

at::Tensor HeadProducts::logits(std::int64_t begin, std::int64_t rows) {
  auto logits = product(operand(hidden_.narrow(0, begin, rows)), weight_.t());
  if (!cap_) return logits;
  logits.div_(*cap_).tanh_();
  if (wants_gradients()) slopes_ = logits.square().neg_().add_(1);
  return logits.mul_(*cap_);
}

/// The input of the products: 16-bit numbers as they are if the device accumulates them in float32 (CUDA's tensor
/// cores), else widened, which gives the same products.
at::Tensor HeadProducts::operand(const at::Tensor& x) const { return x.is_cpu() ? x.to(sum_type_) : x; }

bool HeadProducts::is_widening() const { return type() != sum_type_ && !hidden_.is_cpu(); }

at::Tensor HeadProducts::product(const at::Tensor& a, const at::Tensor& b) const {
  return is_widening() ? at::mm(a, b, at::kFloat) : at::mm(a, b);
}

void HeadProducts::add_gradients(const at::Tensor& grad_logits, std::int64_t begin) {
  // By the rows' slopes, in whose place the product is: they are not needed again.
  const at::Tensor in = operand(cap_ ? slopes_.mul_(grad_logits).to(grad_logits.scalar_type()) : grad_logits);
  if (grad_hidden_.defined()) {
    at::Tensor gradient = product(in, weight_);
    if (scale_ != 1) gradient.div_(scale_);
    if (factors_.of_hidden.defined()) gradient.mul_(factors_.of_hidden.narrow(0, begin, in.size(0)));
    grad_hidden_.narrow(0, begin, in.size(0)).copy_(gradient);
  }
  if (grad_weight_.defined()) add_weight_gradient(in, begin);
}

void HeadProducts::add_weight_gradient(const at::Tensor& grad_logits, std::int64_t begin) {
  const auto rows = grad_logits.size(0);
  at::Tensor states = operand(hidden_.narrow(0, begin, rows));
  if (factors_.of_weight.defined()) {  // they act on the states, which are smaller than the logits
    const at::Tensor plain = states;
    states = at::empty_like(plain);
    at::mul_out(states, plain, factors_.of_weight.narrow(0, begin, rows));
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

at::Tensor loss_of_head(const at::Tensor& hidden, const at::Tensor& weight, const at::Tensor& labels,
                        const std::function<at::Tensor(const TargetRows&, HeadProducts&)>& loss_of,
                        std::optional<double> cap) {
  const bool gradients = at::GradMode::is_enabled();
  at::Tensor loss;
  LossGradients found;
  {
    const at::NoGradGuard no_grad;
    const TargetRows targets(hidden, labels);
    HeadProducts products(targets.hidden(), weight,
                          {.hidden_gradient = gradients && hidden.requires_grad(),
                           .weight_gradient = gradients && weight.requires_grad()},
                          cap);
    loss = loss_of(targets, products);
    found = {TargetRows::among(products.grad_hidden(), targets.rows(), hidden.size(0)), products.grad_weight()};
  }
  if (!found.hidden.defined() && !found.weight.defined()) return loss;
  return WithGradients::apply(loss, hidden, weight, found);
}

}  // namespace capstan::ops
