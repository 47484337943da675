#include <capstan/base/error.h>
#include <capstan/ops/overlapped_linear.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "ops/again.h"
#include "ops/pieces.h"

namespace capstan::ops {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;
using Bound = std::shared_ptr<const OverlappedLabels>;

Bound bind(std::shared_ptr<comm::Group> group, const std::string& label) {
  CAPSTAN_ASSERT(group != nullptr);
  return std::make_shared<const OverlappedLabels>(OverlappedLabels{std::move(group), label, label + ", backward"});
}

/// How x becomes what the product reads, carried through an autograd context.
struct Entry : torch::CustomClassHolder {
  Bound bound;
  std::optional<std::int64_t> dim;  ///< x is sharded along it; absent: x is replicated
  std::int64_t full = 0;
  bool has_bias = false;
};

/// The collective from the gradient of the product's input to that of x: the constructor starts it.
class ToInput {
 public:
  ToInput(const Entry& entry, const at::Tensor& gradient) {
    auto& group = *entry.bound->group;
    if (entry.dim) {
      pieces_.emplace(group, gradient, *entry.dim, entry.bound->backward);
    } else {
      sum_ = gradient;
      pending_ = group.start_all_reduce(sum_, comm::ReduceOp::sum, entry.bound->backward);
    }
  }
  at::Tensor wait() {
    if (pieces_) return pieces_->wait();
    pending_->wait();
    return sum_;
  }

 private:
  std::optional<StartedReduction> pieces_;
  at::Tensor sum_;
  std::unique_ptr<comm::Pending> pending_;
};

at::Tensor as_rows(const at::Tensor& x) { return x.reshape({-1, x.size(-1)}); }

class OverlappedFunction : public torch::autograd::Function<OverlappedFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& weight,
                            const std::optional<at::Tensor>& bias, const c10::IValue& capsule) {
    ctx->saved_data["entry"] = capsule;
    const auto entry = c10::static_intrusive_pointer_cast<Entry>(capsule.toCapsule());
    const auto& bound = *entry->bound;
    const auto input = entry->dim ? gather(*bound.group, x, *entry->dim, entry->full, bound.forward) : x;
    ctx->saved_data["shape"] = input.sizes();
    const InputForBackward kept(*ctx, weight.requires_grad() ? input : at::Tensor());
    ctx->save_for_backward({kept.saved(), weight});
    return at::linear(input, weight, bias);
  }

  // The same products and sums as autograd's for at::linear.
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto entry = c10::static_intrusive_pointer_cast<Entry>(ctx->saved_data["entry"].toCapsule());
    const auto saved = ctx->get_saved_variables();
    const at::Tensor& weight = saved[1];
    const bool of_input = ctx->needs_input_grad(0), of_weight = ctx->needs_input_grad(1);
    const bool of_bias = entry->has_bias && ctx->needs_input_grad(2);
    const at::Tensor gradient = as_rows(gradients[0]);

    std::optional<ToInput> on_its_way;
    if (of_input) on_its_way.emplace(*entry, at::mm(gradient, weight).view(ctx->saved_data["shape"].toIntVector()));

    variable_list result(4);
    if (of_weight) result[1] = at::mm(gradient.t(), as_rows(InputForBackward::of(*ctx, saved[0])));
    if (of_bias) result[2] = gradient.sum(0);
    if (of_input) result[0] = on_its_way->wait();
    return result;
  }
};

at::Tensor apply(const Bound& bound, std::optional<std::int64_t> dim, std::int64_t full, const at::Tensor& x,
                 const at::Tensor& weight, const std::optional<at::Tensor>& bias) {
  if (bound->group->size() == 1) return at::linear(x, weight, bias);
  auto entry = c10::make_intrusive<Entry>();
  entry->bound = bound;
  entry->dim = dim;
  entry->full = full;
  entry->has_bias = bias.has_value();
  return OverlappedFunction::apply(x, weight, bias, c10::IValue::make_capsule(entry));
}

}  // namespace

LinearOfCopy::LinearOfCopy(std::shared_ptr<comm::Group> group, const std::string& label)
    : bound_(bind(std::move(group), label)) {}

at::Tensor LinearOfCopy::operator()(const at::Tensor& x, const at::Tensor& weight,
                                    const std::optional<at::Tensor>& bias) const {
  return apply(bound_, {}, 0, x, weight, bias);
}

LinearOfPieces::LinearOfPieces(std::shared_ptr<comm::Group> group, std::int64_t dim, const std::string& label)
    : bound_(bind(std::move(group), label)), dim_(dim) {}

at::Tensor LinearOfPieces::operator()(const at::Tensor& x, std::int64_t full, const at::Tensor& weight,
                                      const std::optional<at::Tensor>& bias) const {
  CAPSTAN_ASSERT(dim_ >= 0 && dim_ < x.dim() - 1);
  return apply(bound_, dim_, full, x, weight, bias);
}

}  // namespace capstan::ops
