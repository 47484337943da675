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
