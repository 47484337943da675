#include "ops/shared_input.h"

#include <ATen/ATen.h>
#include <ATen/core/LegacyTypeDispatch.h>

#include <typeinfo>
#include <utility>
#include <vector>

#include "ops/operator.h"

namespace capstan::ops {
namespace {

constexpr const char *deferred = "deferred", *noted = "shared input";

/// Gradients [rows, k] and weights [k, in] of adapters' products.
struct Deferred : torch::CustomClassHolder {
  std::vector<std::pair<at::Tensor, at::Tensor>> products;
};

Deferred& of_entry(const c10::IValue& value) {
  const auto holder = value.toCapsule();
  return static_cast<Deferred&>(*holder);  // the context keeps it
}

class ShareFunction : public Function<ShareFunction> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& x) {
    ctx->set_materialize_grads(false);
    ctx->saved_data["shape"] = x.sizes();
    ctx->saved_data[deferred] = c10::IValue::make_capsule(c10::make_intrusive<Deferred>());
    const at::AutoDispatchBelowADInplaceOrView guard;  // results, no views that autograd follows
    return {at::alias(x), at::alias(x)};
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto products = std::exchange(of_entry(entry_of(*ctx)).products, {});
    at::Tensor sum = gradients[0];  // a product's own result: it may be written to
    for (const auto& [gradient, weight] : products) {
      if (sum.defined()) {
        sum.view({-1, sum.size(-1)}).addmm_(gradient, weight);
      } else {
        sum = at::mm(gradient, weight).view(ctx->saved_data["shape"].toIntVector());
      }
    }
    if (gradients[1].defined()) sum = sum.defined() ? sum + gradients[1] : gradients[1];
    return {sum};
  }

  static const c10::IValue& entry_of(AutogradContext& ctx) { return ctx.saved_data.at(deferred); }
};

using ShareNode = torch::autograd::CppNode<ShareFunction>;

bool shares(const torch::autograd::Node& node) { return typeid(node) == typeid(ShareNode); }

}  // namespace

SharedInput share_input(const at::Tensor& x) {
  const auto both = ShareFunction::apply(x);
  return {both[0], both[1]};
}

void note_sharing(AutogradContext& ctx, const at::Tensor& x) {
  const auto& node = x.grad_fn();
  if (!node || x.output_nr() != 1 || !shares(*node)) return;
  ctx.saved_data[noted] = ShareFunction::entry_of(static_cast<ShareNode&>(*node).ctx_);
}

bool defer_gradient(AutogradContext& ctx, const at::Tensor& gradient, const at::Tensor& weight) {
  const auto found = ctx.saved_data.find(noted);
  if (found == ctx.saved_data.end()) return false;
  of_entry(found->second).products.emplace_back(gradient, weight);
  return true;
}

torch::autograd::Edge beyond_sharing(const at::Tensor& x) {
  const auto& node = x.grad_fn();
  return node && shares(*node) ? node->next_edge(0) : torch::autograd::Edge(node, x.output_nr());
}

}  // namespace capstan::ops
