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

struct Predictor::Impl {
  std::unique_ptr<predict::Planner> planner;
};

Predictor::Predictor(const std::string& config, const std::vector<std::string>& overrides, const Machines& machines,
                     const Environment& env, plugin::Host& host)
    : impl_(new Impl{predict::door().planner({config, overrides, env}, machines, host)}) {}

Predictor::~Predictor() = default;

std::int64_t Predictor::global_batch() const { return impl_->planner->global_batch(); }
std::map<std::string, bool> Predictor::strategies() const { return impl_->planner->strategies(); }
std::string Predictor::about_times() const { return impl_->planner->about_times(); }

std::optional<std::int64_t> Predictor::data_ranks(const std::vector<std::string>& overrides) const {
  return impl_->planner->data_ranks(overrides);
}
std::optional<Estimate> Predictor::predict(const std::vector<std::string>& overrides) const {
  return impl_->planner->predict(overrides);
}
void Predictor::judge() const { impl_->planner->judge(); }

}  // namespace capstan::plan
