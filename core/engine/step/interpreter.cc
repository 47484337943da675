#include "step/interpreter.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>

#include <algorithm>
#include <utility>

namespace capstan::step {
namespace {

using Kind = strategy::Action::Kind;

// What is carried has rows and positions, [B, S, ...]; sums have at most one dimension.
bool is_carried(const at::Tensor& tensor) { return tensor.dim() > 1; }

std::vector<at::Tensor> tensors_of(const nn::Hidden& hidden) {
  CAPSTAN_ASSERT(std::none_of(hidden.sums.begin(), hidden.sums.end(), is_carried));
  CAPSTAN_ASSERT(std::all_of(hidden.carried.begin(), hidden.carried.end(), is_carried));
  std::vector<at::Tensor> tensors{hidden.states};
  tensors.insert(tensors.end(), hidden.sums.begin(), hidden.sums.end());
  tensors.insert(tensors.end(), hidden.carried.begin(), hidden.carried.end());
  return tensors;
}

nn::Hidden hidden_of(const std::vector<at::Tensor>& tensors) {
  const auto carried = std::find_if(tensors.begin() + 1, tensors.end(), is_carried);
  return {tensors.front(), {tensors.begin() + 1, carried}, {}, {carried, tensors.end()}};
}

// What leaves a stage, apart from the graph that made it. Whether its gradient is wanted goes with it.
std::vector<at::Tensor> leaves_of(const nn::Hidden& hidden) {
  std::vector<at::Tensor> leaves;
  for (const auto& tensor : tensors_of(hidden))
    leaves.push_back(tensor.detach().set_requires_grad(tensor.requires_grad()));
  return leaves;
}

std::vector<at::Tensor> with_gradient(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> some;
  for (const auto& tensor : tensors) {
    if (tensor.requires_grad()) some.push_back(tensor);
  }
  return some;
}

std::vector<at::Tensor> gradients_of(const nn::Hidden& input) {
  std::vector<at::Tensor> gradients;
  for (const auto& leaf : with_gradient(tensors_of(input)))
    gradients.push_back(leaf.grad().defined() ? leaf.grad().contiguous() : at::zeros_like(leaf));
  return gradients;
}

template <class Map>
auto take(Map& map, const typename Map::key_type& key) {
  auto node = map.extract(key);
  CAPSTAN_ASSERT(!node.empty());
  return std::move(node.mapped());
}

}  // namespace

Workload::~Workload() = default;

void Workload::forward_backward(Interpreter& interpreter, int micro) {
  interpreter.forward_backward(micro, batch(micro), *this);
}

Interpreter::Interpreter(UnitRunner& runner, Channels channels)
    : runner_(runner), transfers_(std::move(channels), runner.stages().position) {}

const strategy::RankStage& Interpreter::stage_of(const strategy::Action& action) const {
  const auto& stages = runner_.stages();
  return stages.stages[stages.index_of(action.stage)];
}

bool Interpreter::is_whole(const strategy::Program& program, std::size_t at) const {
  return runner_.stages().is_whole() && at + 1 < program.size() && program[at].kind == Kind::forward &&
         program[at + 1] == strategy::Action{Kind::backward, program[at].stage, program[at].micro};
}

void Interpreter::run(const strategy::Program& program, Workload& work) {
  forget();  // a program that failed may have left some
  for (std::size_t at = 0; at < program.size(); ++at) {
    work.before(program[at]);
    if (!is_whole(program, at)) {
      act(program[at], work);
      continue;
    }
    work.before_backward(backwards_++);
    work.forward_backward(*this, program[at++].micro);
  }
  transfers_.finish();
}

// Nothing of it stays: between steps there are no activations.
void Interpreter::forward_backward(int micro, const nn::Batch& batch, Workload& work) {
  MicroContext context{&runner_.stages().stages.front(), batch};
  runner_.forward(context);
  work.computed(context);
  work.start(micro, context);
  runner_.backward(context);
}

void Interpreter::act(const strategy::Action& action, Workload& work) {
  const Key key{action.stage, action.micro};
  const auto& stage = stage_of(action);
  switch (action.kind) {
    case Kind::forward:
      return forward(action, work);
    case Kind::backward:
    case Kind::backward_input:
      return backward(action, work);
    case Kind::backward_weight:
      return backward_weight(action, work);
    case Kind::send_states:
      return transfers_.send_states(take(leaving_, key), contexts_.at(key).batch, stage.after, action);
    case Kind::receive_states:
      return transfers_.start_states(context_of(action, work).batch, stage.before, action);
    case Kind::send_gradients:
      return transfers_.send_gradients(take(leaving_, key), stage.before, action);
    case Kind::receive_gradients:
      return transfers_.start_gradients(with_gradient(tensors_of(contexts_.at(key).out)), stage.after, action);
  }
}

std::vector<at::Tensor> Interpreter::states_for(const strategy::RankStage& stage, int micro) {
  if (stage.before == runner_.stages().position) return take(states_, {stage.number, micro});
  return transfers_.wait_for({Kind::receive_states, stage.number, micro}, stage.before);
}

std::vector<at::Tensor> Interpreter::gradients_for(const strategy::RankStage& stage, int micro) {
  if (stage.after == runner_.stages().position) return take(gradients_, {stage.number, micro});
  return transfers_.wait_for({Kind::receive_gradients, stage.number, micro}, stage.after);
}

// The micro-batch's batch is made when it is first met, by what receives its states or by its forward.
MicroContext& Interpreter::context_of(const strategy::Action& action, Workload& work) {
  const Key key{action.stage, action.micro};
  const auto found = contexts_.find(key);
  return found != contexts_.end() ? found->second : contexts_[key] = {&stage_of(action), work.batch(action.micro)};
}

void Interpreter::forward(const strategy::Action& action, Workload& work) {
  const Key key{action.stage, action.micro};
  const auto& stage = stage_of(action);
  auto& context = context_of(action, work);
  if (stage.before >= 0) context.in = hidden_of(states_for(stage, action.micro));
  runner_.forward(context);
  work.computed(context);
  if (stage.after < 0) return;
  const bool stays = stage.after == runner_.stages().position;
  (stays ? states_[{action.stage + 1, action.micro}] : leaving_[key]) = leaves_of(context.out);
}

void Interpreter::backward(const strategy::Action& action, Workload& work) {
  const Key key{action.stage, action.micro};
  const auto& stage = stage_of(action);
  auto& context = contexts_.at(key);
  work.before_backward(backwards_++);
  if (stage.after < 0) {
    work.start(action.micro, context);
  } else {
    context.roots = with_gradient(tensors_of(context.out));
    context.gradients = gradients_for(stage, action.micro);
  }
  const bool is_part = action.kind == Kind::backward_input;
  is_part ? runner_.backward_input(context) : runner_.backward(context);
  if (stage.before >= 0) {
    const bool stays = stage.before == runner_.stages().position;
    (stays ? gradients_[{action.stage - 1, action.micro}] : leaving_[key]) = gradients_of(context.in);
  }
  if (is_part) {
    context.in = context.out = {};
    context.roots = context.gradients = {};
  } else {
    contexts_.erase(key);
  }
}

void Interpreter::backward_weight(const strategy::Action& action, Workload& work) {
  auto context = take(contexts_, {action.stage, action.micro});
  work.before_backward(backwards_++);
  runner_.backward_weight(context);
}

nn::Hidden Interpreter::evaluate(const nn::Batch& batch, nn::KVCache* cache, const UnitRunner::Seen& seen) {
  const at::NoGradGuard no_grad;
  const auto& stages = runner_.stages();
  nn::Hidden out;
  std::vector<at::Tensor> states;
  for (const auto& stage : stages.stages) {
    if (stage.before >= 0 && stage.before != stages.position) {
      transfers_.start_states(batch, stage.before, {Kind::receive_states, stage.number, 0});
      states = states_for(stage, 0);
    }
    MicroContext context{&stage, batch};
    context.cache = cache;
    if (stage.before >= 0) context.in = hidden_of(states);
    runner_.forward(context, seen);
    if (stage.after < 0) {
      out = std::move(context.out);
    } else {
      states = leaves_of(context.out);
      if (stage.after != stages.position)
        transfers_.send_states(states, batch, stage.after, {Kind::send_states, stage.number, 0});
    }
  }
  transfers_.finish();
  return out;
}

void Interpreter::expect(int stage, const nn::Batch& batch, const nn::Hidden& in) {
  transfers_.expect(stage, batch, tensors_of(in));
}

void Interpreter::forget() {
  contexts_.clear();
  states_.clear();
  gradients_.clear();
  leaving_.clear();
  backwards_ = 0;
}

}  // namespace capstan::step
