#include "step/unit_runner.h"
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "strategy/recompute.h"

namespace capstan::step {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// A unit in the runner's chain. Autograd's nodes around the unit share it.
struct UnitRunner::Link : torch::CustomClassHolder {
  Link(UnitRunner& in, std::size_t at, std::string context)
      : runner(in), index(at), unit(in.units_[at]), in_forward(std::move(context)) {}
  UnitRunner& runner;
  std::size_t index;
  nn::Unit* unit;
  std::string in_forward;  // what an error in the unit's forward names
  std::vector<std::unique_ptr<strategy::UnitHooks>> hooks;
  bool recompute = false;
};

// Passes tensors through unchanged. When the gradient of all of them comes back, the unit's backward begins or ends.
class UnitRunner::Crossing : public torch::autograd::Function<Crossing> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, const c10::IValue& link, bool enters) {
    ctx->saved_data["link"] = link;
    ctx->saved_data["enters"] = enters;
    variable_list out;
    for (const auto& tensor : tensors) out.push_back(tensor.view_as(tensor));
    return out;
  }
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const auto link = c10::static_intrusive_pointer_cast<Link>(ctx->saved_data["link"].toCapsule());
    auto& runner = link->runner;
    ctx->saved_data["enters"].toBool() ? runner.enter_backward(*link) : runner.leave_backward(*link);
    gradients.resize(gradients.size() + 2);  // the places of `link` and `enters` among the arguments
    return gradients;
  }
};

namespace {

// The places of what has a gradient.
std::vector<at::Tensor*> differentiated(nn::Hidden& hidden) {
  std::vector<at::Tensor*> all{&hidden.states};
  for (auto* list : {&hidden.sums, &hidden.carried})
    for (auto& tensor : *list) all.push_back(&tensor);
  std::erase_if(all, [](const auto* tensor) { return !tensor->defined() || !tensor->requires_grad(); });
  return all;
}

std::string forward_context(const std::string& model, const std::string& unit) {
  return cat(model.empty() ? "the model" : cat("plugin '", model, "'"), " was in phase forward of unit ", unit);
}

// What a unit keeps until its next forward: what the function holds of other passes is large, and only a head's forward
// calls it.
nn::Batch without_function(nn::Batch batch) {
  batch.pass.function = nullptr;
  return batch;
}

}  // namespace

UnitRunner::UnitRunner(const std::vector<nn::Unit*>& units, std::string model)
    : UnitRunner(units, strategy::RankStages::whole(units), std::move(model)) {}

UnitRunner::UnitRunner(std::vector<nn::Unit*> units, strategy::RankStages stages, std::string model)
    : units_(std::move(units)), stages_(std::move(stages)) {
  const auto owner = std::move(model);
  for (std::size_t i = 0; i < units_.size(); ++i)
    links_.push_back(c10::make_intrusive<Link>(*this, i, forward_context(owner, units_[i]->name())));
}

UnitRunner::~UnitRunner() = default;

void UnitRunner::add_hooks(std::size_t unit, std::unique_ptr<strategy::UnitHooks> hooks) {
  links_.at(unit)->hooks.push_back(std::move(hooks));
}

void UnitRunner::set_recompute(std::size_t unit, bool recompute) { links_.at(unit)->recompute = recompute; }

std::size_t UnitRunner::hooks() const {
  return std::accumulate(links_.begin(), links_.end(), std::size_t{0},
                         [](std::size_t sum, const auto& link) { return sum + link->hooks.size(); });
}

bool UnitRunner::recomputes() const {
  return std::any_of(links_.begin(), links_.end(), [](const auto& link) {
    const auto regions = link->unit->template all<nn::Region>();
    return link->recompute ||
           std::any_of(regions.begin(), regions.end(), [](const auto* r) { return bool(r->around); });
  });
}

nn::Hidden UnitRunner::forward(const nn::Batch& batch) {
  CAPSTAN_ASSERT(stages_.is_whole());
  alone_ = {&stages_.stages.front(), batch};
  forward(alone_);
  return std::exchange(alone_.out, {});
}

void UnitRunner::backward(const at::Tensor& loss, const at::Tensor& seed) {
  alone_.roots = {loss};
  alone_.gradients = {seed};
  backward(alone_);
  alone_.roots = alone_.gradients = {};
}

void UnitRunner::forward(MicroContext& context, const Seen& seen) {
  const auto& stage = *context.stage;
  context.out = context.in;
  for (auto i = stage.first; i < stage.end; ++i) {
    context.out = run(*links_[i], std::move(context.out), context);
    if (seen) seen(stage.place + i - stage.first, context.out);
  }
}

nn::Hidden UnitRunner::cross(const nn::Hidden& in, Link& link, bool enters) {
  auto hidden = in;
  const auto places = differentiated(hidden);  // what needs no gradient gets none on its way
  if (places.empty()) return hidden;
  variable_list tensors;
  for (const auto* place : places) tensors.push_back(*place);
  tensors = Crossing::apply(at::TensorList(tensors), c10::IValue::make_capsule(links_[link.index]), enters);
  for (std::size_t i = 0; i < places.size(); ++i) *places[i] = tensors[i];
  return hidden;
}

nn::Hidden UnitRunner::run(Link& link, nn::Hidden hidden, const MicroContext& context) {
  const auto& batch = context.batch;
  for (auto& hooks : link.hooks) hooks->before_forward();
  link.unit->set_batch(without_function(batch));
  const bool with_grad = c10::GradMode::is_enabled() && link.index >= stages_.first_reached;
  if (with_grad) {
    // A re-entrant segment without a differentiable input returns no gradient at all, and post-backward needs a
    // node before the unit: from the first trainable unit on, the hidden state requires grad.
    if (hidden.states.defined() && !hidden.states.requires_grad())
      hidden.states = hidden.states.detach().requires_grad_(true);
    hidden = cross(hidden, link, /*enters=*/false);
    hidden = link.recompute ? strategy::recomputed(*link.unit, link.in_forward, std::move(hidden), batch)
                            : strategy::run_unit(*link.unit, link.in_forward, std::move(hidden), batch, context.cache);
    hidden = cross(hidden, link, /*enters=*/true);
  } else {
    const at::NoGradGuard no_grad;
    hidden = strategy::run_unit(*link.unit, link.in_forward, std::move(hidden), batch, context.cache);
  }
  std::for_each(link.hooks.rbegin(), link.hooks.rend(), [](auto& hooks) { hooks->after_forward(); });
  return hidden;
}

void UnitRunner::enter_backward(Link& link) {
  CAPSTAN_ASSERT(current_ != nullptr && !current_->in_backward[link.index]);
  current_->in_backward[link.index] = true;
  entered_ = link.index;
  link.unit->set_batch(without_function(current_->batch));  // other micro-batches' forwards may have come between
  for (auto& hooks : link.hooks) hooks->before_backward();
}

void UnitRunner::leave_backward(Link& link) {
  CAPSTAN_ASSERT(current_ != nullptr && current_->in_backward[link.index]);
  current_->in_backward[link.index] = false;
  std::for_each(link.hooks.rbegin(), link.hooks.rend(), [](auto& hooks) { hooks->after_backward(); });
}

void UnitRunner::backward(MicroContext& context) {
  run_backward(context);
  end_backward(context);
}

void UnitRunner::backward_input(MicroContext& context) {
  context.left.resize(links_.size());
  entered_ = context.stage->end - 1;
  const ops::LeaveWeightGradients leave([&] { return &context.left[entered_]; });
  run_backward(context);
  leave_gradients(context);
}

// Those that no product left: in their leaves autograd would add other micro-batches' to them, in the weights' dtype.
void UnitRunner::leave_gradients(MicroContext& context) {
  for (auto i = first_reached(context); i < context.stage->end; ++i) {
    for (const auto& weight : links_[i]->unit->weights()) {
      const auto& leaf = weight->value();
      if (!leaf.grad().defined()) continue;
      context.left[i].add(torch::autograd::impl::gradient_edge(leaf),
                          [gradient = std::exchange(leaf.mutable_grad(), {})] { return gradient; });
    }
  }
}

// From the last unit to the first, as backward does: what is complete is on its way to other ranks early.
void UnitRunner::backward_weight(MicroContext& context) {
  for (auto i = context.stage->end; i-- > first_reached(context);) {
    context.left[i].compute();
    auto& hooks = links_[i]->hooks;
    std::for_each(hooks.rbegin(), hooks.rend(), [](auto& each) { each->after_weight_gradients(); });
  }
  end_backward(context);
}

void UnitRunner::run_backward(MicroContext& context) {
  context.in_backward.assign(links_.size(), false);
  current_ = &context;
  torch::autograd::backward(context.roots, context.gradients);
  // The embedding has no input with a gradient, so there is no node before it: it is finished here.
  for (auto i = context.stage->end; i-- > context.stage->first;) {
    if (context.in_backward[i]) leave_backward(*links_[i]);
  }
  current_ = nullptr;
}

void UnitRunner::end_backward(const MicroContext& context) {
  for (auto i = first_reached(context); i < context.stage->end; ++i) {
    for (auto& hooks : links_[i]->hooks) hooks->end_backward();
  }
}

}  // namespace capstan::step
