#include "step/stage_transfers.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <capstan/base/error.h>

#include <algorithm>
#include <utility>

namespace capstan::step {
namespace {

// A header is this long: a count, and for each tensor its dtype, whether it requires gradients, its number of
// dimensions and their sizes.
constexpr std::int64_t header_length = 256;

// NCCL connects two ranks in their first transfer, in which each waits for the other. A step's transfers are in an
// order of each rank's own.
void connect(comm::Group& group) {
  if (!group.device().is_cuda()) return;
  const auto token = at::zeros({1}, at::TensorOptions().device(group.device()));
  if (group.rank() == 0) {
    group.start_send(token, 1, "first transfer")->wait();
  } else {
    group.receive(token, 0, "first transfer");
  }
}

std::tuple<strategy::Action::Kind, int, int> name_of(const strategy::Action& action) {
  return {action.kind, action.stage, action.micro};
}

}  // namespace

Channels channels_of(const strategy::Stages& stages, int position, const std::vector<int>& ranks,
                     const std::function<std::shared_ptr<comm::Group>(const Channel&, const std::vector<int>&)>& make) {
  const auto& positions = stages.positions;
  Channels channels;
  for (std::size_t s = 0; s + 1 < positions.size(); ++s) {
    const int here = positions[s];
    const int next = positions[s + 1];
    if (here == next || (here != position && next != position)) continue;
    channels.try_emplace({here, next, true});
    channels.try_emplace({next, here, false});
  }
  for (auto& [channel, group] : channels) {
    group = make(channel, {ranks[static_cast<std::size_t>(channel.from)], ranks[static_cast<std::size_t>(channel.to)]});
    connect(*group);
  }
  return channels;
}

StageTransfers::Key StageTransfers::key_of(int stage, const nn::Batch& batch) {
  return {stage, c10::GradMode::is_enabled(), batch.training, batch.tokens.size(0), batch.tokens.size(1)};
}

at::Tensor StageTransfers::header_of(const std::vector<at::Tensor>& states, c10::Device device) {
  std::vector<std::int64_t> numbers{static_cast<std::int64_t>(states.size())};
  for (const auto& tensor : states) {
    numbers.insert(numbers.end(),
                   {static_cast<std::int64_t>(tensor.scalar_type()), tensor.requires_grad() ? 1 : 0, tensor.dim()});
    numbers.insert(numbers.end(), tensor.sizes().begin(), tensor.sizes().end());
  }
  CAPSTAN_ASSERT(static_cast<std::int64_t>(numbers.size()) <= header_length);
  numbers.resize(header_length);
  return at::tensor(numbers, at::kLong).to(device);
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

void StageTransfers::send(comm::Group& group, const at::Tensor& tensor, const strategy::Action& action) {
  for (; !sent_.empty() && sent_.front().pending->has_ended(); sent_.pop_front()) sent_.front().pending->wait();
  const auto memory = tensor.detach().contiguous();
  sent_.push_back({memory, group.start_send(memory, 1, strategy::cargo(action))});
}

void StageTransfers::send_states(const std::vector<at::Tensor>& states, const nn::Batch& batch, int to,
                                 const strategy::Action& action) {
  auto& group = *channels_.at({position_, to, true});
  if (told_.insert(key_of(action.stage, batch)).second) send(group, header_of(states, group.device()), action);
  for (const auto& tensor : states) send(group, tensor, action);
}

void StageTransfers::start(int from, const at::Tensor& tensor, const strategy::Action& action, bool requires_grad) {
  const bool has_states = action.kind == strategy::Action::Kind::receive_states;
  const Channel channel{from, position_, has_states};
  auto pending = channels_.at(channel)->start_receive(tensor, 0, strategy::cargo(action));
  coming_[channel].push_back({name_of(action), {tensor, std::move(pending)}, requires_grad});
}

void StageTransfers::start_states(const nn::Batch& batch, int from, const strategy::Action& action) {
  auto& group = *channels_.at({from, position_, true});
  const auto key = key_of(action.stage, batch);
  const auto here = at::TensorOptions().device(group.device());
  if (!forms_.contains(key)) {
    // The host waits for it, and on CPU those before it on the channel end only when they are waited for.
    auto& coming = coming_[{from, position_, true}];
    end(coming, coming.end());
    const auto header = at::empty({header_length}, here.dtype(at::kLong));
    group.receive(header, 0, strategy::cargo(action));
    forms_[key] = forms_in(header);
  }
  for (const auto& form : forms_.at(key))
    start(from, at::empty(form.shape, here.dtype(form.dtype)), action, form.requires_grad);
}

void StageTransfers::send_gradients(const std::vector<at::Tensor>& gradients, int to, const strategy::Action& action) {
  for (const auto& tensor : gradients) send(*channels_.at({position_, to, false}), tensor, action);
}

void StageTransfers::start_gradients(const std::vector<at::Tensor>& of, int from, const strategy::Action& action) {
  for (const auto& tensor : of)
    start(from, at::empty(tensor.sizes(), tensor.options().requires_grad(false)), action, false);
}

void StageTransfers::end(std::deque<Coming>& coming, const std::deque<Coming>::iterator& last) {
  for (auto one = coming.begin(); one != last; ++one) {
    one->moving.pending->wait();
    here_[one->name].push_back(one->moving.tensor.set_requires_grad(one->requires_grad));
  }
  coming.erase(coming.begin(), last);
}

// A channel's transfers end in their order, whichever of them is needed first.
std::vector<at::Tensor> StageTransfers::wait_for(const strategy::Action& action, int from) {
  const auto name = name_of(action);
  auto& coming = coming_[{from, position_, action.kind == strategy::Action::Kind::receive_states}];
  const auto is_it = [&](const Coming& one) { return one.name == name; };
  end(coming, std::find_if(coming.rbegin(), coming.rend(), is_it).base());
  auto found = here_.extract(name);
  return found.empty() ? std::vector<at::Tensor>{} : std::move(found.mapped());  // nothing where no gradient is wanted
}

void StageTransfers::expect(int stage, const nn::Batch& batch, const std::vector<at::Tensor>& states) {
  auto& forms = forms_[key_of(stage, batch)];
  forms.clear();
  for (const auto& tensor : states)
    forms.push_back({tensor.scalar_type(), tensor.requires_grad(), tensor.sizes().vec()});
  told_.insert(key_of(stage - 1, batch));
}

void StageTransfers::finish() {
  for (auto& one : sent_) one.pending->wait();
  sent_.clear();
}

}  // namespace capstan::step
