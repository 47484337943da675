#include <capstan/base/error.h>
#include <capstan/ops/collectives.h>
#include <torch/csrc/autograd/custom_function.h>

#include "ops/pieces.h"

namespace capstan::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Bound = std::shared_ptr<const BoundGroup>;

/// Carries the group through an autograd context.
struct BoundHolder : torch::CustomClassHolder {
  explicit BoundHolder(Bound b) : bound(std::move(b)) {}
  Bound bound;
};

void keep(AutogradContext* ctx, const Bound& bound) {
  ctx->saved_data["group"] = c10::IValue::make_capsule(c10::make_intrusive<BoundHolder>(bound));
}

Bound kept(AutogradContext* ctx) {
  const auto holder = ctx->saved_data["group"].toCapsule();
  return static_cast<const BoundHolder*>(holder.get())->bound;
}

class CopyFunction : public torch::autograd::Function<CopyFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Bound& bound) {
    keep(ctx, bound);
    return x.view_as(x);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const Bound bound = kept(ctx);
    return {sum_over(*bound->group, gradients[0], bound->backward_label), {}};
  }
};

class ReduceFunction : public torch::autograd::Function<ReduceFunction> {
 public:
  static at::Tensor forward(AutogradContext*, const at::Tensor& x, const Bound& bound) {
    return sum_over(*bound->group, x, bound->forward_label);
  }
  static variable_list backward(AutogradContext*, const variable_list& gradients) { return {gradients[0], {}}; }
};

class GatherFunction : public torch::autograd::Function<GatherFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Bound& bound, std::int64_t dim,
                            std::int64_t full, GatheredGradient gradient) {
    keep(ctx, bound);
    ctx->saved_data["dim"] = dim;
    ctx->saved_data["sum"] = gradient == GatheredGradient::part;
    return gather(*bound->group, x, dim, full, bound->forward_label);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const Bound bound = kept(ctx);
    const std::int64_t dim = ctx->saved_data["dim"].toInt();
    const bool sum = ctx->saved_data["sum"].toBool();
    return {sum ? reduce_pieces(*bound->group, gradients[0], dim, bound->backward_label)
                : cut(*bound->group, gradients[0], dim),
            {},
            {},
            {},
            {}};
  }
};

class ScatterFunction : public torch::autograd::Function<ScatterFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const Bound& bound, std::int64_t dim,
                            ScatteredValue value) {
    keep(ctx, bound);
    ctx->saved_data["dim"] = dim;
    ctx->saved_data["full"] = x.size(dim);
    return value == ScatteredValue::part ? reduce_pieces(*bound->group, x, dim, bound->forward_label)
                                         : cut(*bound->group, x, dim);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const Bound bound = kept(ctx);
    return {gather(*bound->group, gradients[0], ctx->saved_data["dim"].toInt(), ctx->saved_data["full"].toInt(),
                   bound->backward_label),
            {},
            {},
            {}};
  }
};

Bound bind(std::shared_ptr<comm::Group> group, const std::string& label) {
  CAPSTAN_ASSERT(group != nullptr);
  return std::make_shared<const BoundGroup>(BoundGroup{std::move(group), label, label + ", backward"});
}

}  // namespace

CopyToGroup::CopyToGroup(std::shared_ptr<comm::Group> group, const std::string& label)
    : bound_(bind(std::move(group), label)) {}

at::Tensor CopyToGroup::operator()(const at::Tensor& x) const {
  return bound_->group->size() == 1 ? x : CopyFunction::apply(x, bound_);
}

ReduceFromGroup::ReduceFromGroup(std::shared_ptr<comm::Group> group, const std::string& label)
    : bound_(bind(std::move(group), label)) {}

at::Tensor ReduceFromGroup::operator()(const at::Tensor& x) const {
  return bound_->group->size() == 1 ? x : ReduceFunction::apply(x, bound_);
}

GatherFromGroup::GatherFromGroup(std::shared_ptr<comm::Group> group, std::int64_t dim, GatheredGradient gradient,
                                 const std::string& label)
    : bound_(bind(std::move(group), label)), dim_(dim), gradient_(gradient) {}

at::Tensor GatherFromGroup::operator()(const at::Tensor& x, std::int64_t full) const {
  return bound_->group->size() == 1 ? x : GatherFunction::apply(x, bound_, dim_, full, gradient_);
}

ScatterToGroup::ScatterToGroup(std::shared_ptr<comm::Group> group, std::int64_t dim, ScatteredValue value,
                               const std::string& label)
    : bound_(bind(std::move(group), label)), dim_(dim), value_(value) {}

at::Tensor ScatterToGroup::operator()(const at::Tensor& x) const {
  return bound_->group->size() == 1 ? x : ScatterFunction::apply(x, bound_, dim_, value_);
}

}  // namespace capstan::ops
