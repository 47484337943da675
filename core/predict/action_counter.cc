#include "predict/action_counter.h"

#include <algorithm>
#include <utility>

namespace capstan::predict {

using Kind = strategy::Action::Kind;

void ActionCounter::begin(const strategy::Action& action) {
  end();
  auto found = find(action.kind, action.stage);
  is_first_ = found == actions_.end();
  if (is_first_) found = actions_.insert(found, plan::ActionWork{{action.kind, action.stage, 0}, {}});
  now_ = &found->work;
  *now_ = {{}, std::move(now_->gathers), {}, {}};
  copies_.clear();
  model_.count_gathers_into(is_first_ ? &now_->gathers : &now_->later_gathers);
  is_first_ = is_first_ && action.kind != Kind::forward;
  listening_.emplace([this](const comm::PlannedCall& call) { hear(call); });
  compute_.emplace();
}

void ActionCounter::end() {
  if (!now_) return;
  add_computed();
  if (is_first_) now_->later_gathers = now_->gathers;  // it may be the part's only backward in the stage
  compute_.reset();
  listening_.reset();
  model_.count_gathers_into(nullptr);
  now_ = nullptr;
}

std::vector<plan::ActionWork> ActionCounter::take() {
  end();
  for (auto& [action, work] : actions_) {
    if (action.kind != Kind::forward) continue;
    const auto receive = find(Kind::receive_states, action.stage);
    if (receive != actions_.end()) add(work, receive->work);
  }
  std::erase_if(actions_, [](const auto& one) {
    return one.action.kind == Kind::receive_states || one.action.kind == Kind::receive_gradients;
  });
  return std::move(actions_);
}

std::vector<plan::ActionWork>::iterator ActionCounter::find(Kind kind, int stage) {
  return std::find_if(actions_.begin(), actions_.end(),
                      [&](const auto& one) { return one.action.kind == kind && one.action.stage == stage; });
}

void ActionCounter::hear(const comm::PlannedCall& call) {
  if (!call.key) {
    const auto nodes = nodes_of(call.ranks, topology_.ranks_per_node);
    ++waited_[{call.operation, static_cast<int>(call.ranks.size()), nodes, call.bytes}];
  } else if (call.bytes > 0 || copies_.contains(call.key)) {  // what an earlier action began to copy is there
    if (call.bytes > 0) copies_[call.key] = now_->copies.size();
    now_->copies.push_back({add_computed(), call.bytes, copies_.at(call.key)});
  }
}

plan::Computing ActionCounter::add_computed() {
  plan::Computing computed{std::exchange(compute_->work(), {}), std::exchange(waited_, {})};
  add(*now_, computed);
  return computed;
}

}  // namespace capstan::predict
