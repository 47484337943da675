#include "strategy/recompute.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <utility>

namespace capstan::strategy {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What backward needs to run the unit again.
struct Segment : torch::CustomClassHolder {
  nn::Unit* unit = nullptr;
  nn::Batch batch;
  bool has_states = false;
};

nn::Hidden pack(const Segment& segment, const variable_list& inputs) {
  nn::Hidden hidden;
  auto next = inputs.begin();
  if (segment.has_states) hidden.states = *next++;
  hidden.sums.assign(next, inputs.end());
  return hidden;
}

variable_list unpack(const nn::Hidden& hidden) {
  variable_list out{hidden.states};
  out.insert(out.end(), hidden.sums.begin(), hidden.sums.end());
  return out;
}

// The anchor is one element that requires grad: a unit without a differentiable input (the embedding) is still
// reached by backward through it.
class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& /*anchor*/, at::TensorList inputs,
                               const c10::IValue& capsule) {
    const variable_list list(inputs.begin(), inputs.end());
    ctx->saved_data["segment"] = capsule;
    ctx->save_for_backward(list);
    const auto segment = c10::static_intrusive_pointer_cast<Segment>(capsule.toCapsule());
    return unpack(segment->unit->forward(pack(*segment, list), segment->batch, nullptr));
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto segment = c10::static_intrusive_pointer_cast<Segment>(ctx->saved_data["segment"].toCapsule());
    variable_list inputs;
    for (const auto& saved : ctx->get_saved_variables())
      inputs.push_back(saved.detach().requires_grad_(saved.requires_grad()));
    variable_list outputs;
    {
      const at::AutoGradMode with_grad(true);
      outputs = unpack(segment->unit->forward(pack(*segment, inputs), segment->batch, nullptr));
    }
    variable_list roots;
    variable_list seeds;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad() || !gradients[i].defined()) continue;
      roots.push_back(outputs[i]);
      seeds.push_back(gradients[i]);
    }
    if (!roots.empty()) torch::autograd::backward(roots, seeds);
    variable_list result{at::Tensor()};
    for (const auto& input : inputs) result.push_back(input.grad());
    result.emplace_back();  // the capsule's place among the arguments
    return result;
  }
};

}  // namespace

nn::Hidden recomputed(nn::Unit& unit, nn::Hidden hidden, const nn::Batch& batch) {
  auto segment = c10::make_intrusive<Segment>();
  segment->unit = &unit;
  segment->batch = batch;
  segment->has_states = hidden.states.defined();
  variable_list inputs;
  if (hidden.states.defined()) inputs.push_back(hidden.states);
  inputs.insert(inputs.end(), hidden.sums.begin(), hidden.sums.end());
  const auto anchor = at::zeros({}, at::TensorOptions().dtype(at::kFloat)).requires_grad_(true);
  const c10::IValue capsule = c10::IValue::make_capsule(segment);
  const auto outputs = Recompute::apply(anchor, at::TensorList(inputs), capsule);
  nn::Hidden result;
  result.states = outputs.front();
  result.sums.assign(outputs.begin() + 1, outputs.end());
  return result;
}

}  // namespace capstan::strategy
