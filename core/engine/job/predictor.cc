#include <capstan/plan/predictor.h>

#include <algorithm>

#include "predict/door.h"

namespace capstan::plan {

double PositionTime::seconds_of(const strategy::Action& action) const {
  const auto found = std::find_if(actions.begin(), actions.end(), [&](const ActionTime& one) {
    return one.action.kind == action.kind && one.action.stage == action.stage;
  });
  return found == actions.end() ? 0 : found->computing + found->waiting;
}

Predictor::~Predictor() = default;

std::unique_ptr<Predictor> Predictor::open(const std::string& config, const std::vector<std::string>& overrides,
                                           const Machines& machines, const Environment& env, plugin::Host& host) {
  return predict::door().planner({config, overrides, env}, machines, host);
}

}  // namespace capstan::plan
