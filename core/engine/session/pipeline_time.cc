#include "session/pipeline_time.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include "strategy/rank_stages.h"

#include <algorithm>
#include <map>
#include <string>

namespace capstan::plan {
namespace {

// A position's way through its program.
struct Runner {
  std::size_t next = 0;
  double now = 0;
};

}  // namespace

PipelineTime pipeline_time(const std::vector<strategy::Program>& programs,
                           const std::function<double(std::size_t position, const strategy::Action&)>& seconds) {
  using Kind = strategy::Action::Kind;
  PipelineTime time{0, std::vector<double>(programs.size(), 0)};
  std::vector<Runner> runners(programs.size());
  std::map<std::string, double> arrived;  // what was sent, and when it is there
  // False: the action waits for what is not sent yet.
  const auto act = [&](std::size_t position, const strategy::Action& action) {
    auto& now = runners[position].now;
    if (!strategy::is_transfer(action)) {
      const auto took = seconds(position, action);
      now += took;
      time.busy[position] += took;
    } else if (action.kind == Kind::send_states || action.kind == Kind::send_gradients) {
      arrived[strategy::cargo(action)] = now + seconds(position, action);
    } else {
      const auto found = arrived.find(strategy::cargo(action));
      if (found == arrived.end()) return false;
      now = std::max(now, found->second);
    }
    return true;
  };
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t p = 0; p < programs.size(); ++p) {
      auto& next = runners[p].next;
      for (; next < programs[p].size() && act(p, programs[p][next]); ++next) moved = true;
    }
  }
  for (std::size_t p = 0; p < programs.size(); ++p) {
    if (runners[p].next < programs[p].size()) {
      throw Error(cat("the programs of a model's stages wait for each other: position ", p, " of pp is at ",
                      strategy::text(programs[p][runners[p].next]), ", which is never sent"),
                  "correct what the strategy returns from stages()");
    }
    time.seconds = std::max(time.seconds, runners[p].now);
  }
  return time;
}

}  // namespace capstan::plan
