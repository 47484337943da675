#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include "session/step_time.h"
#include "strategy/rank_stages.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>

namespace capstan::plan {

double PositionTime::seconds_of(const strategy::Action& action) const {
  const auto found = std::find_if(actions.begin(), actions.end(), [&](const ActionTime& one) {
    return one.action.kind == action.kind && one.action.stage == action.stage;
  });
  return found == actions.end() ? 0 : found->computing + found->waiting;
}

static void refuse_waiting(std::size_t position, const strategy::Action& action) {
  throw Error(cat("the programs of a model's stages wait for each other: position ", position, " of pp is at ",
                  strategy::text(*strategy::receive_for(action)), ", which is never sent"),
              "correct what the strategy returns from stages()");
}

PipelineTime pipeline_time(const std::vector<PositionTime>& positions) {
  PipelineTime time{0, std::vector<double>(positions.size(), 0)};
  std::vector<std::size_t> next(positions.size(), 0);
  std::vector<double> now(positions.size(), 0);
  std::map<std::string, double> arrived;  // what was sent, and when it is there
  std::vector<std::set<std::string>> awaited(positions.size());
  // False: the action waits for what is not sent yet.
  const auto act = [&](std::size_t position, const strategy::Action& action) {
    if (action.kind == strategy::Action::Kind::send_states || action.kind == strategy::Action::Kind::send_gradients) {
      arrived[strategy::cargo(action)] = now[position] + positions[position].seconds_of(action);
      return true;
    }
    if (strategy::is_transfer(action)) return awaited[position].insert(strategy::cargo(action)).second;
    if (const auto receive = strategy::receive_for(action); receive && awaited[position].contains(cargo(*receive))) {
      const auto found = arrived.find(cargo(*receive));
      if (found == arrived.end()) return false;
      now[position] = std::max(now[position], found->second);
    }
    const auto took = positions[position].seconds_of(action);
    now[position] += took;
    time.busy[position] += took;
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t p = 0; p < positions.size(); ++p) {
      const auto& program = positions[p].program;
      for (; next[p] < program.size() && act(p, program[next[p]]); ++next[p]) moved = true;
    }
  }
  for (std::size_t p = 0; p < positions.size(); ++p) {
    const auto& program = positions[p].program;
    if (next[p] < program.size()) refuse_waiting(p, program[next[p]]);
    time.seconds = std::max(time.seconds, now[p]);
  }
  return time;
}

}  // namespace capstan::plan
