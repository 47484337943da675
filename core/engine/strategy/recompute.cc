#include "strategy/recompute.h"

#include <ATen/core/grad_mode.h>
#include <capstan/comm/communicator.h>
#include <capstan/strategy/keep_input.h>
#include <capstan/strategy/recompute.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/custom_function.h>
#include "ops/weight_gradients.h"
#include "plugin/guard.h"

#include <functional>
#include <utility>

namespace capstan::strategy {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// What backward needs for the second run.
struct Segment : torch::CustomClassHolder {
  std::function<variable_list(const variable_list&)> run;
  KeepInput keep;                    // keeps the first input; empty: autograd does, as the others
  std::function<at::Tensor()> kept;  // what it returned
};

// The anchor is one element that requires grad: a segment without a differentiable input (the embedding) is still
// reached by backward through it.
class Recompute : public torch::autograd::Function<Recompute> {
 public:
  static variable_list forward(AutogradContext* ctx, const at::Tensor& /*anchor*/, at::TensorList inputs,
                               const c10::IValue& capsule) {
    variable_list list(inputs.begin(), inputs.end());
    const auto segment = c10::static_intrusive_pointer_cast<Segment>(capsule.toCapsule());
    ctx->saved_data["segment"] = capsule;
    auto saved = list;
    if (segment->keep) segment->kept = segment->keep(std::exchange(saved.front(), {}));
    ctx->save_for_backward(std::move(saved));
    auto outputs = segment->run(list);
    // An input that needs no gradient gets none where it is handed on as it came.
    std::erase_if(list, [](const auto& input) { return input.requires_grad(); });
    ctx->mark_non_differentiable(list);
    return outputs;
  }

  static variable_list backward(AutogradContext* ctx, const variable_list& gradients) {
    const auto segment = c10::static_intrusive_pointer_cast<Segment>(ctx->saved_data["segment"].toCapsule());
    auto all = ctx->get_saved_variables();
    if (segment->kept) all.front() = std::exchange(segment->kept, {})().requires_grad_(true);
    variable_list inputs;
    for (auto& saved : all) inputs.push_back(saved.detach().requires_grad_(saved.requires_grad()));
    variable_list outputs;
    {
      const at::AutoGradMode with_grad(true);
      outputs = segment->run(inputs);
    }
    variable_list roots;
    variable_list seeds;
    for (std::size_t i = 0; i < outputs.size(); ++i) {
      if (!outputs[i].requires_grad() || !gradients[i].defined()) continue;
      roots.push_back(outputs[i]);
      seeds.push_back(gradients[i]);
    }
    // What was computed again is freed now: no product's input waits for its weight's gradient.
    const ops::LeaveWeightGradients nowhere([] { return nullptr; });
    if (!roots.empty()) torch::autograd::backward(roots, seeds);
    variable_list result{at::Tensor()};
    for (const auto& input : inputs) result.push_back(input.grad());
    result.emplace_back();  // the capsule's place among the arguments
    return result;
  }
};

variable_list run_segment(std::function<variable_list(const variable_list&)> run, const variable_list& inputs,
                          const KeepInput& keep) {
  auto segment = c10::make_intrusive<Segment>();
  segment->run = std::move(run);
  segment->keep = keep;
  const auto anchor = at::zeros({}, at::TensorOptions().dtype(at::kFloat)).requires_grad_(true);
  return Recompute::apply(anchor, at::TensorList(inputs), c10::IValue::make_capsule(segment));
}

}  // namespace

nn::Hidden run_unit(nn::Unit& unit, const std::string& context, nn::Hidden hidden, const nn::Batch& batch,
                    nn::KVCache* cache) {
  try {
    return unit.forward(std::move(hidden), batch, cache);
  } catch (const comm::PeerFailed&) {
    throw;
  } catch (...) {
    plugin::rethrow_with_context(context);
  }
}

nn::Hidden recomputed(nn::Unit& unit, const std::string& context, nn::Hidden hidden, const nn::Batch& batch) {
  const bool has_states = hidden.states.defined();
  variable_list inputs;
  if (has_states) inputs.push_back(hidden.states);
  inputs.insert(inputs.end(), hidden.sums.begin(), hidden.sums.end());
  inputs.insert(inputs.end(), hidden.carried.begin(), hidden.carried.end());
  const auto sums = static_cast<std::ptrdiff_t>(hidden.sums.size());
  auto both_runs = batch;
  both_runs.kept = std::make_shared<nn::RecomputeContext>();
  const auto counted = std::make_shared<std::vector<at::Tensor>>();
  const auto sums_out = std::make_shared<std::ptrdiff_t>(0);
  const auto run = [&unit, context, both_runs, counted, sums_out, has_states, sums](const variable_list& list) {
    nn::Hidden in;
    auto next = list.begin();
    if (has_states) in.states = *next++;
    in.sums.assign(next, next + sums);
    in.carried.assign(next + sums, list.end());
    const auto out = run_unit(unit, context, std::move(in), both_runs, nullptr);
    *counted = out.expert_tokens;
    *sums_out = static_cast<std::ptrdiff_t>(out.sums.size());
    variable_list tensors{out.states};
    tensors.insert(tensors.end(), out.sums.begin(), out.sums.end());
    tensors.insert(tensors.end(), out.carried.begin(), out.carried.end());
    return tensors;
  };
  const auto keepers = unit.all<InputKeeper>();
  const auto outputs = run_segment(run, inputs, has_states && !keepers.empty() ? keepers.front()->keep : KeepInput());
  nn::Hidden result;
  result.states = outputs.front();
  result.sums.assign(outputs.begin() + 1, outputs.begin() + 1 + *sums_out);
  result.carried.assign(outputs.begin() + 1 + *sums_out, outputs.end());
  result.expert_tokens = std::move(hidden.expert_tokens);
  result.expert_tokens.insert(result.expert_tokens.end(), counted->begin(), counted->end());
  return result;
}

InputKeeper::~InputKeeper() = default;

at::Tensor recomputed(const nn::Region::Body& body, const at::Tensor& input) { return recomputed(body, input, {}); }

at::Tensor recomputed(const nn::Region::Body& body, const at::Tensor& input, const KeepInput& keep) {
  if (!c10::GradMode::is_enabled()) return body(input);
  const auto run = [body](const variable_list& list) { return variable_list{body(list.front())}; };
  return run_segment(run, {input}, keep).front();
}

}  // namespace capstan::strategy
