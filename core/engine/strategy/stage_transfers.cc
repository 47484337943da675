#include "strategy/stage_transfers.h"

#include <ATen/ATen.h>
#include <capstan/base/error.h>

namespace capstan::strategy {
namespace {

// A header is this long: a count, and for each tensor its dtype, whether it requires gradients, its number of
// dimensions and their sizes.
constexpr std::int64_t header_length = 256;

}  // namespace

StageTransfers::Key StageTransfers::key_of(int stage, const nn::Batch& batch) {
  return {stage, c10::GradMode::is_enabled(), batch.tokens.size(0), batch.tokens.size(1)};
}

at::Tensor StageTransfers::header_of(const std::vector<at::Tensor>& states) const {
  std::vector<std::int64_t> numbers{static_cast<std::int64_t>(states.size())};
  for (const auto& tensor : states) {
    numbers.insert(numbers.end(),
                   {static_cast<std::int64_t>(tensor.scalar_type()), tensor.requires_grad() ? 1 : 0, tensor.dim()});
    numbers.insert(numbers.end(), tensor.sizes().begin(), tensor.sizes().end());
  }
  CAPSTAN_ASSERT(static_cast<std::int64_t>(numbers.size()) <= header_length);
  numbers.resize(header_length);
  return at::tensor(numbers, at::kLong).to(groups_.states->device());
}

std::vector<StageTransfers::Form> StageTransfers::forms_in(const at::Tensor& header) {
  const auto host = header.cpu();
  const auto* next = host.const_data_ptr<std::int64_t>();
  std::vector<Form> forms(static_cast<std::size_t>(*next++));
  for (auto& form : forms) {
    form.dtype = static_cast<c10::ScalarType>(*next++);
    form.requires_grad = *next++ != 0;
    const auto dimensions = *next++;
    form.shape.assign(next, next + dimensions);
    next += dimensions;
  }
  return forms;
}

void StageTransfers::send(comm::Group& group, const at::Tensor& tensor, int to, const Action& action) {
  const auto memory = tensor.detach().contiguous();
  sent_.push_back({memory, group.start_send(memory, to, cargo(action))});
}

void StageTransfers::send_states(const std::vector<at::Tensor>& states, const nn::Batch& batch, int to,
                                 const Action& action) {
  if (told_.insert(key_of(action.stage, batch)).second) send(*groups_.states, header_of(states), to, action);
  for (const auto& tensor : states) send(*groups_.states, tensor, to, action);
}

std::vector<at::Tensor> StageTransfers::receive_states(const nn::Batch& batch, int from, const Action& action) {
  auto& group = *groups_.states;
  auto& forms = forms_[key_of(action.stage, batch)];
  if (forms.empty()) {
    const auto header = at::empty({header_length}, at::TensorOptions().dtype(at::kLong).device(group.device()));
    group.receive(header, from, cargo(action));
    forms = forms_in(header);
  }
  std::vector<at::Tensor> states;
  for (const auto& form : forms) {
    states.push_back(at::empty(form.shape, at::TensorOptions().dtype(form.dtype).device(group.device())));
    group.receive(states.back(), from, cargo(action));
    states.back().set_requires_grad(form.requires_grad);
  }
  return states;
}

void StageTransfers::send_gradients(const std::vector<at::Tensor>& gradients, int to, const Action& action) {
  for (const auto& tensor : gradients) send(*groups_.gradients, tensor, to, action);
}

std::vector<at::Tensor> StageTransfers::receive_gradients(const std::vector<at::Tensor>& of, int from,
                                                          const Action& action) {
  std::vector<at::Tensor> gradients;
  for (const auto& tensor : of) {
    gradients.push_back(at::empty(tensor.sizes(), tensor.options().requires_grad(false)));
    groups_.gradients->receive(gradients.back(), from, cargo(action));
  }
  return gradients;
}

void StageTransfers::finish() {
  for (auto& one : sent_) one.pending->wait();
  sent_.clear();
}

}  // namespace capstan::strategy
