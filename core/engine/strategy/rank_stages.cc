#include "strategy/rank_stages.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <utility>

namespace capstan::strategy {

std::string fault_of(const Stages& stages, std::size_t units, int positions) {
  const auto& first = stages.first_units;
  if (first.empty() || first.size() != stages.positions.size()) return "there are not as many positions as stages";
  if (first.front() != 0) return "the first stage does not begin at the model's first unit";
  if (std::adjacent_find(first.begin(), first.end(), std::greater_equal<>()) != first.end() || first.back() >= units)
    return cat("they do not divide the model's ", units, " units in order");
  const std::set<int> used(stages.positions.begin(), stages.positions.end());
  if (static_cast<int>(used.size()) != positions || *used.begin() != 0 || *used.rbegin() != positions - 1)
    return cat("they are not spread over all ", positions, " positions of pp");
  return stages.program ? "" : "there is no program";
}

RankStages RankStages::of(const Stages& stages, int position, const std::vector<nn::Unit*>& model) {
  const auto count = stages.first_units.size();
  const auto reached = last_in_backward(model);
  RankStages mine{{}, position, 0};
  std::size_t own = 0;
  for (std::size_t s = 0; s < count; ++s) {
    if (stages.positions[s] != position) continue;
    const auto first = stages.first_units[s];
    const auto end = s + 1 < count ? stages.first_units[s + 1] : model.size();
    const auto before = s > 0 ? stages.positions[s - 1] : -1;
    const auto after = s + 1 < count ? stages.positions[s + 1] : -1;
    mine.stages.push_back({static_cast<int>(s), own, own + end - first, first, before, after});
    mine.first_reached += std::min(std::max(reached, first), end) - first;
    own += end - first;
  }
  return mine;
}

std::size_t RankStages::index_of(int number) const {
  const auto found =
      std::find_if(stages.begin(), stages.end(), [&](const auto& stage) { return stage.number == number; });
  CAPSTAN_ASSERT(found != stages.end());
  return static_cast<std::size_t>(found - stages.begin());
}

std::size_t RankStages::of_unit(std::size_t unit) const {
  const auto found = std::find_if(stages.begin(), stages.end(), [&](const auto& stage) { return unit < stage.end; });
  CAPSTAN_ASSERT(found != stages.end());
  return static_cast<std::size_t>(found - stages.begin());
}

BusiestPart busiest_part(const Program& program, const RankStages& stages) {
  std::map<std::pair<int, int>, std::size_t> last;  // by stage and micro-batch
  for (std::size_t i = 0; i < program.size(); ++i) {
    if (!is_transfer(program[i])) last[{program[i].stage, program[i].micro}] = i;
  }
  std::set<std::pair<Action::Kind, int>> seen;  // kinds of actions, by stage
  std::size_t units = 0, most = 0, end = 0;
  int now = 0, times = 0;
  BusiestPart busiest;
  for (std::size_t i = 0; i < program.size(); ++i) {
    const auto& [kind, number, micro] = program[i];
    const auto& stage = stages.stages[stages.index_of(number)];
    if (seen.insert({kind, number}).second) end = i + 1;
    if (kind == Action::Kind::forward) {
      busiest.in_flight = std::max(busiest.in_flight, ++now);
      if ((units += stage.end - stage.first) > most) most = units, times = 0;
    }
    if (last.at({number, micro}) != i) continue;
    if (units == most && ++times <= 2) end = i + 1;
    units -= stage.end - stage.first;
    --now;
  }
  busiest.program.assign(program.begin(), program.begin() + static_cast<std::ptrdiff_t>(end));
  return busiest;
}

}  // namespace capstan::strategy
