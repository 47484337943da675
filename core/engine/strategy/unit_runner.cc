#include "strategy/unit_runner.h"
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <numeric>
#include <utility>

#include "strategy/reach.h"
#include "strategy/recompute.h"

namespace capstan::strategy {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct UnitRunner::Link {
  std::size_t index = 0;
  nn::Unit* unit = nullptr;
  std::string in_forward;  // what an error in the unit's forward names
  std::vector<std::unique_ptr<UnitHooks>> hooks;
  bool recompute = false;
  std::function<void()> enter, leave;
};

namespace {

// Passes tensors through unchanged and runs a callback when the gradient of all of them comes back.
class Crossing : public torch::autograd::Function<Crossing> {
 public:
  static variable_list forward(AutogradContext* ctx, at::TensorList tensors, std::int64_t callback) {
    ctx->saved_data["callback"] = callback;
    variable_list out;
    for (const auto& tensor : tensors) out.push_back(tensor.view_as(tensor));
    return out;
  }
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    (*reinterpret_cast<std::function<void()>*>(ctx->saved_data["callback"].toInt()))();
    gradients.emplace_back();  // the callback's place among the arguments
    return gradients;
  }
};

variable_list flatten(const nn::Hidden& hidden) {
  variable_list tensors;
  if (hidden.states.defined()) tensors.push_back(hidden.states);
  tensors.insert(tensors.end(), hidden.sums.begin(), hidden.sums.end());
  return tensors;
}

nn::Hidden unflatten(const nn::Hidden& shape, const variable_list& tensors) {
  nn::Hidden hidden;
  auto next = tensors.begin();
  if (shape.states.defined()) hidden.states = *next++;
  hidden.sums.assign(next, tensors.end());
  hidden.expert_tokens = shape.expert_tokens;
  return hidden;
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

nn::Hidden cross(const nn::Hidden& hidden, std::function<void()>& callback) {
  const auto tensors = flatten(hidden);
  if (std::none_of(tensors.begin(), tensors.end(), [](const auto& t) { return t.requires_grad(); })) return hidden;
  return unflatten(hidden, Crossing::apply(at::TensorList(tensors), reinterpret_cast<std::int64_t>(&callback)));
}

}  // namespace

UnitRunner::UnitRunner(const std::vector<nn::Unit*>& units, std::string model)
    : UnitRunner(units, RankStages::whole(units), std::move(model)) {}

UnitRunner::UnitRunner(std::vector<nn::Unit*> units, RankStages stages, std::string model)
    : units_(std::move(units)), stages_(std::move(stages)) {
  const auto owner = std::move(model);
  for (std::size_t i = 0; i < units_.size(); ++i) {
    auto link = std::make_unique<Link>();
    link->index = i;
    link->unit = units_[i];
    link->in_forward = forward_context(owner, units_[i]->name());
    link->enter = [this, raw = link.get()] { enter_backward(*raw); };
    link->leave = [this, raw = link.get()] { leave_backward(*raw); };
    links_.push_back(std::move(link));
  }
}

UnitRunner::~UnitRunner() = default;

void UnitRunner::add_hooks(std::size_t unit, std::unique_ptr<UnitHooks> hooks) {
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

nn::Hidden UnitRunner::forward(const nn::Batch& batch, nn::KVCache* cache, const Seen& seen) {
  CAPSTAN_ASSERT(stages_.is_whole());
  alone_ = {batch, {}, {}};
  forward(alone_, stages_.stages.front(), cache, seen);
  return std::exchange(alone_.out, {});
}

void UnitRunner::backward(const at::Tensor& loss, const at::Tensor& seed) {
  backward(alone_, stages_.stages.front(), {loss}, {seed});
}

void UnitRunner::forward(MicroContext& context, const RankStage& stage, nn::KVCache* cache, const Seen& seen) {
  context.out = context.in;
  for (auto i = stage.first; i < stage.end; ++i) {
    context.out = run(*links_[i], std::move(context.out), context.batch, cache);
    if (seen) seen(stage.place + i - stage.first, context.out);
  }
}

nn::Hidden UnitRunner::run(Link& link, nn::Hidden hidden, const nn::Batch& batch, nn::KVCache* cache) {
  for (auto& hooks : link.hooks) hooks->before_forward();
  link.unit->set_batch(without_function(batch));
  const bool with_grad = c10::GradMode::is_enabled() && link.index >= stages_.first_reached;
  if (with_grad) {
    // A re-entrant segment without a differentiable input returns no gradient at all, and post-backward needs a
    // node before the unit: from the first trainable unit on, the hidden state requires grad.
    if (hidden.states.defined() && !hidden.states.requires_grad())
      hidden.states = hidden.states.detach().requires_grad_(true);
    hidden = cross(hidden, link.leave);
    hidden = link.recompute ? recomputed(*link.unit, link.in_forward, std::move(hidden), batch)
                            : run_unit(*link.unit, link.in_forward, std::move(hidden), batch, cache);
    hidden = cross(hidden, link.enter);
  } else {
    const at::NoGradGuard no_grad;
    hidden = run_unit(*link.unit, link.in_forward, std::move(hidden), batch, cache);
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

void UnitRunner::backward(MicroContext& context, const RankStage& stage, const std::vector<at::Tensor>& roots,
                          const std::vector<at::Tensor>& gradients) {
  run_backward(context, stage, roots, gradients);
  end_backward(stage);
}

void UnitRunner::backward_input(MicroContext& context, const RankStage& stage, const std::vector<at::Tensor>& roots,
                                const std::vector<at::Tensor>& gradients) {
  context.left.resize(links_.size());
  entered_ = stage.end - 1;
  const ops::LeaveWeightGradients leave([&] { return &context.left[entered_]; });
  run_backward(context, stage, roots, gradients);
  leave_gradients(context, stage);
}

// Those that no product left: in their leaves autograd would add other micro-batches' to them, in the weights' dtype.
void UnitRunner::leave_gradients(MicroContext& context, const RankStage& stage) {
  for (auto i = first_reached(stage); i < stage.end; ++i) {
    for (const auto& weight : links_[i]->unit->weights()) {
      const auto& leaf = weight->value();
      if (!leaf.grad().defined()) continue;
      context.left[i].add(torch::autograd::impl::gradient_edge(leaf),
                          [gradient = std::exchange(leaf.mutable_grad(), {})] { return gradient; });
    }
  }
}

// From the last unit to the first, as backward does: what is complete is on its way to other ranks early.
void UnitRunner::backward_weight(MicroContext& context, const RankStage& stage) {
  for (auto i = stage.end; i-- > first_reached(stage);) {
    context.left[i].compute();
    auto& hooks = links_[i]->hooks;
    std::for_each(hooks.rbegin(), hooks.rend(), [](auto& each) { each->after_weight_gradients(); });
  }
  end_backward(stage);
}

void UnitRunner::run_backward(MicroContext& context, const RankStage& stage, const std::vector<at::Tensor>& roots,
                              const std::vector<at::Tensor>& gradients) {
  context.in_backward.assign(links_.size(), false);
  current_ = &context;
  torch::autograd::backward(roots, gradients);
  // The embedding has no input with a gradient, so there is no node before it: it is finished here.
  for (auto i = stage.end; i-- > stage.first;) {
    if (context.in_backward[i]) leave_backward(*links_[i]);
  }
  current_ = nullptr;
}

void UnitRunner::end_backward(const RankStage& stage) {
  for (auto i = first_reached(stage); i < stage.end; ++i) {
    for (auto& hooks : links_[i]->hooks) hooks->end_backward();
  }
}

}  // namespace capstan::strategy
