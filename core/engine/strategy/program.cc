#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/strategy/program.h>

#include <algorithm>
#include <deque>
#include <map>
#include <set>
#include <utility>

namespace capstan::strategy {
namespace {

const char* name(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::forward:
      return "forward";
    case Action::Kind::backward:
      return "backward";
    case Action::Kind::backward_input:
      return "backward of inputs";
    case Action::Kind::backward_weight:
      return "backward of weights";
    case Action::Kind::send_states:
      return "send states";
    case Action::Kind::receive_states:
      return "receive states";
    case Action::Kind::send_gradients:
      return "send gradients";
    case Action::Kind::receive_gradients:
      return "receive gradients";
  }
  return "";
}

// What others send a position, as the receiver's actions: by the sender and by whether it is states, in the order in
// which it is sent.
using Coming = std::map<std::pair<int, bool>, std::deque<Action>>;

Coming coming_to(int position, const Stages& stages, int micros) {
  Coming coming;
  const auto& positions = stages.positions;
  for (const int other : std::set<int>(positions.begin(), positions.end())) {
    if (other == position) continue;
    for (const auto& action : stages.program(other, micros)) {
      const bool is_states = action.kind == Action::Kind::forward;
      if (!is_states && !makes_gradients(action.kind)) continue;
      const int to = action.stage + (is_states ? 1 : -1);
      if (to < 0 || to >= static_cast<int>(positions.size()) || positions[static_cast<std::size_t>(to)] != position)
        continue;
      const auto kind = is_states ? Action::Kind::receive_states : Action::Kind::receive_gradients;
      coming[{other, is_states}].push_back({kind, to, action.micro});
    }
  }
  return coming;
}

// Adds the transfer, and those that the sender makes before it.
void receive(const Action& transfer, std::deque<Action>& coming, Program& all) {
  const auto found = std::find(coming.begin(), coming.end(), transfer);
  if (found == coming.end()) {
    if (std::find(all.begin(), all.end(), transfer) != all.end()) return;  // it came before another one
    throw Error(cat("the programs of a model's stages do not fit together: nothing sends ", cargo(transfer)),
                "correct what the strategy returns from stages()");
  }
  all.insert(all.end(), coming.begin(), found + 1);
  coming.erase(coming.begin(), found + 1);
}

}  // namespace

std::string text(const Action& action) {
  return cat(name(action.kind), " of micro-batch ", action.micro, " in stage ", action.stage);
}

std::string cargo(const Action& transfer) {
  using Kind = Action::Kind;
  const auto [kind, stage, micro] = transfer;
  const bool is_states = kind == Kind::send_states || kind == Kind::receive_states;
  CAPSTAN_ASSERT(is_states || kind == Kind::send_gradients || kind == Kind::receive_gradients);
  const bool is_sent = kind == Kind::send_states || kind == Kind::send_gradients;
  const int step = is_states ? 1 : -1;  // states go to the next stage, gradients to the one before
  const int from = is_sent ? stage : stage - step;
  return cat(is_states ? "states" : "gradients", " of micro-batch ", micro, " from stage ", from, " to ", from + step);
}

Program accumulation(int stages, int micros) {
  Program program;
  for (int micro = 0; micro < micros; ++micro) {
    for (int stage = 0; stage < stages; ++stage) program.push_back({Action::Kind::forward, stage, micro});
    for (int stage = stages; stage-- > 0;) program.push_back({Action::Kind::backward, stage, micro});
  }
  return program;
}

Program with_transfers(const Program& program, const Stages& stages, int position) {
  const auto owner = [&](int stage) {
    const bool exists = stage >= 0 && stage < static_cast<int>(stages.positions.size());
    return exists ? stages.positions[static_cast<std::size_t>(stage)] : position;
  };
  int micros = 0;
  for (const auto& action : program) micros = std::max(micros, action.micro + 1);
  auto coming = coming_to(position, stages, micros);
  Program all;
  for (const auto& action : program) {
    const auto [kind, stage, micro] = action;
    if (kind == Action::Kind::backward_weight) {
      all.push_back(action);
      continue;
    }
    const bool is_states = kind == Action::Kind::forward;
    const int from = owner(stage + (is_states ? -1 : 1));
    const int to = owner(stage + (is_states ? 1 : -1));
    using Kind = Action::Kind;
    if (from != position) {
      const auto transfer = is_states ? Kind::receive_states : Kind::receive_gradients;
      receive({transfer, stage, micro}, coming[{from, is_states}], all);
    }
    all.push_back(action);
    if (to != position) all.push_back({is_states ? Kind::send_states : Kind::send_gradients, stage, micro});
  }
  return all;
}

}  // namespace capstan::strategy
