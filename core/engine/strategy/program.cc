#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/strategy/program.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace capstan::strategy {
namespace {

// By kind.
constexpr const char* names[] = {"forward",     "backward",       "backward of inputs", "backward of weights",
                                 "send states", "receive states", "send gradients",     "receive gradients"};

// Something of a step: who computes, or sends to whom, and when, on a clock on which a forward or a part of a backward
// takes 1, a backward 2 and a transfer nothing.
struct Event {
  int time = 0, from = 0, to = 0;
  bool computes = false;
  Action action;  // of a transfer, the sender's
};

// Runs the programs of all positions side by side, each as far as what it waits for is there.
class Clock {
 public:
  explicit Clock(const Stages& stages) : stages_(stages) {}

  // All that happens, in one order for all positions: what arrives comes before what starts then.
  std::vector<Event> run(const std::map<int, Program>& programs) {
    std::map<int, std::size_t> next;
    for (bool moved = true; moved;) {
      moved = false;
      for (const auto& [position, program] : programs) {
        for (auto& at = next[position]; at < program.size() && act(position, program[at]); ++at) moved = true;
      }
    }
    for (const auto& [position, program] : programs) {
      if (next[position] == program.size()) continue;
      throw Error(cat("the programs of a model's stages do not fit together: nothing sends ",
                      cargo(*receive_for(program[next[position]])), " before position ", position, " of pp needs it"),
                  "correct what the strategy returns from stages()");
    }
    std::stable_sort(events_.begin(), events_.end(), [](const Event& a, const Event& b) {
      return std::tie(a.time, a.computes, a.from) < std::tie(b.time, b.computes, b.from);
    });
    return std::move(events_);
  }

 private:
  bool exists(int stage) const { return stage >= 0 && stage < static_cast<int>(stages_.positions.size()); }

  bool act(int position, const Action& action) {
    const auto [kind, stage, micro] = action;
    const bool is_forward = kind == Action::Kind::forward, is_rest = kind == Action::Kind::backward_weight;
    const int before = stage + (is_forward ? -1 : 1), after = stage + (is_forward ? 1 : -1);
    auto& now = now_[position];
    if (!is_rest && exists(before)) {
      const auto found = there_.find({is_forward, stage, micro});
      if (found == there_.end()) return false;
      now = std::max(now, found->second);
    }
    events_.push_back({now, position, position, true, action});
    now += kind == Action::Kind::backward ? 2 : 1;
    if (is_rest || !exists(after)) return true;
    there_[{is_forward, after, micro}] = now;
    const int owner = stages_.positions[static_cast<std::size_t>(after)];
    const auto sends = is_forward ? Action::Kind::send_states : Action::Kind::send_gradients;
    if (owner != position) events_.push_back({now, position, owner, false, {sends, stage, micro}});
    return true;
  }

  const Stages& stages_;
  std::map<int, int> now_;
  std::map<std::tuple<bool, int, int>, int> there_;  // since when: states or gradients, for a stage, of a micro-batch
  std::vector<Event> events_;
};

}  // namespace

std::string text(const Action& action) {
  return cat(names[static_cast<std::size_t>(action.kind)], " of micro-batch ", action.micro, " in stage ",
             action.stage);
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

std::optional<Action> receive_for(const Action& action) {
  if (action.kind == Action::Kind::forward) return Action{Action::Kind::receive_states, action.stage, action.micro};
  if (!makes_gradients(action.kind)) return {};
  return Action{Action::Kind::receive_gradients, action.stage, action.micro};
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
  int micros = 0;
  for (const auto& action : program) micros = std::max(micros, action.micro + 1);
  std::map<int, Program> programs;
  for (const int other : std::set<int>(stages.positions.begin(), stages.positions.end()))
    programs[other] = other == position ? program : stages.program(other, micros);
  Program all;
  for (const auto& [time, from, to, computes, action] : Clock(stages).run(programs)) {
    const bool is_states = action.kind == Action::Kind::send_states;
    if (from == position) {
      all.push_back(action);
    } else if (to == position) {
      all.push_back({is_states ? Action::Kind::receive_states : Action::Kind::receive_gradients,
                     action.stage + (is_states ? 1 : -1), action.micro});
    }
  }
  return all;
}

}  // namespace capstan::strategy
