#include "all_to_all_rows.h"

#include <ATen/ops/empty.h>
#include <torch/csrc/autograd/custom_function.h>

#include <memory>
#include <numeric>
#include <string>

namespace expert_parallel {

using namespace capstan;
using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

namespace {

using Counts = std::vector<std::int64_t>;

at::Tensor exchange(comm::Group& group, const at::Tensor& x, const Counts& sent, const Counts& received,
                    const std::string& label) {
  auto shape = x.sizes().vec();
  shape[0] = std::accumulate(received.begin(), received.end(), std::int64_t{0});
  at::Tensor out = at::empty(shape, x.options());
  group.all_to_all(out, x.contiguous(), received, sent, label);
  return out;
}

/// What backward needs: where forward sent the rows.
struct Way : torch::CustomClassHolder {
  std::shared_ptr<const ops::BoundGroup> bound;
  Counts sent;
  Counts received;
};

class AllToAllFunction : public torch::autograd::Function<AllToAllFunction> {
 public:
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const c10::IValue& capsule) {
    ctx->saved_data["way"] = capsule;
    const auto way = c10::static_intrusive_pointer_cast<Way>(capsule.toCapsule());
    return exchange(*way->bound->group, x, way->sent, way->received, way->bound->forward_label);
  }
  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto way = c10::static_intrusive_pointer_cast<Way>(ctx->saved_data["way"].toCapsule());
    return {exchange(*way->bound->group, gradients[0], way->received, way->sent, way->bound->backward_label), {}};
  }
};

}  // namespace

at::Tensor AllToAllRows::operator()(const at::Tensor& x, const Counts& sent, const Counts& received) const {
  if (bound_->group->size() == 1) return x;
  auto way = c10::make_intrusive<Way>();
  way->bound = bound_;
  way->sent = sent;
  way->received = received;
  return AllToAllFunction::apply(x, c10::IValue::make_capsule(way));
}

}  // namespace expert_parallel
