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

using Kind = Action::Kind;

// By kind.
constexpr const char* names[] = {"forward",     "backward",       "backward of inputs", "backward of weights",
                                 "send states", "receive states", "send gradients",     "receive gradients"};

// Runs each program as far as what it waits for is there.
class Clock {
 public:
  Clock(const std::vector<Program>& programs, const Durations& durations, int stages)
      : programs_(programs), durations_(durations), stages_(stages) {
    for (const auto& program : programs) {
      for (const auto& action : program) stages_ = std::max(stages_, action.stage + 1);
    }
    timeline_.rows.resize(programs.size());
    timeline_.busy.resize(programs.size());
  }

  Timeline run() {
    std::vector<std::size_t> next(programs_.size(), 0);
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t p = 0; p < next.size(); ++p) {
        for (; next[p] < programs_[p].size() && act(p, next[p]); ++next[p]) moved = true;
      }
    }
    for (std::size_t p = 0; p < next.size(); ++p) {
      if (next[p] < programs_[p].size()) timeline_.stuck[p] = programs_[p][next[p]];
      timeline_.length = std::max(timeline_.length, now(p));
    }
    return std::move(timeline_);
  }

 private:
  double now(std::size_t p) const { return timeline_.rows[p].empty() ? 0 : timeline_.rows[p].back().end; }

  // False: the action waits for what is not computed yet.
  bool act(std::size_t p, std::size_t place) {
    const auto& action = programs_[p][place];
    if (is_transfer(action)) return true;
    const auto [kind, stage, micro] = action;
    const bool is_forward = kind == Kind::forward, passes_on = is_forward || makes_gradients(kind);
    const auto sends = is_forward ? Kind::send_states : Kind::send_gradients;
    const int before = stage + (is_forward ? -1 : 1);
    auto begin = now(p);
    if (passes_on && before >= 0 && before < stages_) {
      const Action send{sends, before, micro};
      const auto found = computed_.find({sends, before, micro});
      if (found == computed_.end()) return false;
      if (const auto [from, at] = found->second; from != p) {
        timeline_.transfers.push_back({send, *receive_for(action), from, p, at});
        begin = std::max(begin, at + durations_.transfer(from, p, send));
      }
    }
    const auto takes = durations_.computing(p, place, action);
    timeline_.busy[p] += takes;
    timeline_.rows[p].push_back({action, begin, begin + takes});
    if (passes_on) computed_[{sends, stage, micro}] = {p, now(p)};
    return true;
  }

  const std::vector<Program>& programs_;
  const Durations& durations_;
  int stages_;
  std::map<std::tuple<Kind, int, int>, std::pair<std::size_t, double>> computed_;  // by whom, and since when
  Timeline timeline_;
};

}  // namespace

std::string text(const Action& action) {
  return cat(names[static_cast<std::size_t>(action.kind)], " of micro-batch ", action.micro, " in stage ",
             action.stage);
}

std::string cargo(const Action& transfer) {
  CAPSTAN_ASSERT(is_transfer(transfer));
  const auto [kind, stage, micro] = transfer;
  const bool is_states = kind == Kind::send_states || kind == Kind::receive_states;
  const bool is_sent = kind == Kind::send_states || kind == Kind::send_gradients;
  const int step = is_states ? 1 : -1;  // states go to the next stage, gradients to the one before
  const int from = is_sent ? stage : stage - step;
  return cat(is_states ? "states" : "gradients", " of micro-batch ", micro, " from stage ", from, " to ", from + step);
}

std::optional<Action> receive_for(const Action& action) {
  if (action.kind == Kind::forward) return Action{Kind::receive_states, action.stage, action.micro};
  if (!makes_gradients(action.kind)) return {};
  return Action{Kind::receive_gradients, action.stage, action.micro};
}

Program accumulation(int stages, int micros) {
  Program program;
  for (int micro = 0; micro < micros; ++micro) {
    for (int stage = 0; stage < stages; ++stage) program.push_back({Kind::forward, stage, micro});
    for (int stage = stages; stage-- > 0;) program.push_back({Kind::backward, stage, micro});
  }
  return program;
}

Timeline timeline_of(const std::vector<Program>& programs, const Durations& durations, int stages) {
  return Clock(programs, durations, stages).run();
}

Program with_transfers(const Program& program, const Stages& stages, int position) {
  int micros = 0;
  for (const auto& action : program) micros = std::max(micros, action.micro + 1);
  const std::set<int> positions(stages.positions.begin(), stages.positions.end());
  std::vector<Program> programs(static_cast<std::size_t>(*positions.rbegin()) + 1);
  for (const int other : positions)
    programs[static_cast<std::size_t>(other)] = other == position ? program : stages.program(other, micros);
  const auto timeline = timeline_of(programs, {}, static_cast<int>(stages.positions.size()));
  if (!timeline.stuck.empty()) {
    const auto& [other, action] = *timeline.stuck.begin();
    throw Error(cat("the programs of a model's stages do not fit together: nothing sends ", cargo(*receive_for(action)),
                    " before position ", other, " of pp needs it"),
                "correct what the strategy returns from stages()");
  }
  // In one order for all positions: when, whether it starts then, after what arrives, and who computes or sends it.
  std::multimap<std::tuple<double, bool, std::size_t>, Action> events;
  const auto self = static_cast<std::size_t>(position);
  for (const auto& [action, begin, end] : timeline.rows.at(self)) events.insert({{begin, true, self}, action});
  for (const auto& [send, receive, from, to, begin] : timeline.transfers) {
    if (from == self || to == self) events.insert({{begin, false, from}, from == self ? send : receive});
  }
  Program all;
  for (const auto& [when, action] : events) all.push_back(action);
  return all;
}

}  // namespace capstan::strategy
