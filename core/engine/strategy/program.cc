#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/strategy/program.h>

namespace capstan::strategy {
namespace {

const char* name(Action::Kind kind) {
  switch (kind) {
    case Action::Kind::forward:
      return "forward";
    case Action::Kind::backward:
      return "backward";
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

}  // namespace

std::string text(const Action& action) {
  return cat(name(action.kind), " of micro-batch ", action.micro, " in stage ", action.stage);
}

std::string cargo(const Action& transfer) {
  using Kind = Action::Kind;
  const auto [kind, stage, micro] = transfer;
  CAPSTAN_ASSERT(kind != Kind::forward && kind != Kind::backward);
  const bool is_states = kind == Kind::send_states || kind == Kind::receive_states;
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
  const auto is_elsewhere = [&](int stage) {
    return stage >= 0 && stage < static_cast<int>(stages.positions.size()) &&
           stages.positions[static_cast<std::size_t>(stage)] != position;
  };
  Program all;
  for (const auto& action : program) {
    const bool is_forward = action.kind == Action::Kind::forward;
    const int from = action.stage + (is_forward ? -1 : 1);
    const int to = action.stage + (is_forward ? 1 : -1);
    using Kind = Action::Kind;
    if (is_elsewhere(from))
      all.push_back({is_forward ? Kind::receive_states : Kind::receive_gradients, action.stage, action.micro});
    all.push_back(action);
    if (is_elsewhere(to))
      all.push_back({is_forward ? Kind::send_states : Kind::send_gradients, action.stage, action.micro});
  }
  return all;
}

}  // namespace capstan::strategy
