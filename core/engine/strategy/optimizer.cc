#include "strategy/optimizer.h"

#include <capstan/base/error.h>
#include <capstan/base/text.h>
#include <capstan/optimizer/joint.h>
#include <fnmatch.h>

#include <algorithm>
#include <utility>

namespace capstan::optimizer {

Rule::~Rule() = default;

std::unique_ptr<JointUpdate> Rule::joint(const Sharing& /*sharing*/) { return {}; }

std::string Rule::why_useless(const std::vector<const layout::Param*>& /*records*/) const { return {}; }

std::vector<at::Tensor> Rule::unpacked(const layout::Param& record, const std::vector<at::Tensor>& /*state*/) const {
  throw Error(cat("the optimizer cannot take up its state of '", record.name,
                  "' where ranks' boxes divide blocks otherwise than in the run that saved it: it has no unpacked()"),
              "resume on the mesh and with the sharding of the saved run");
}

void Rule::pack(const layout::Param& record, const std::vector<at::Tensor>& /*values*/,
                const std::vector<at::Tensor>& state) const {
  (void)unpacked(record, state);
}

}  // namespace capstan::optimizer

namespace capstan::strategy {

Optimizer::Optimizer(std::vector<OptimizerGroup> groups, double weight_decay, bool decays_all)
    : groups_(std::move(groups)), weight_decay_(weight_decay), decays_all_(decays_all) {
  CAPSTAN_ASSERT(!groups_.empty());
}

Optimizer::Optimizer(std::shared_ptr<optimizer::Rule> rule)
    : Optimizer({{"optimizer", {}, std::move(rule)}}, 0, false) {}

std::vector<optimizer::Rule*> Optimizer::rules() const {
  std::vector<optimizer::Rule*> rules;
  for (const auto& group : groups_) {
    if (std::find(rules.begin(), rules.end(), group.rule.get()) == rules.end()) rules.push_back(group.rule.get());
  }
  return rules;
}

const OptimizerGroup& Optimizer::of(const layout::Param& record) const {
  const auto found = std::find_if(groups_.begin(), groups_.end() - 1, [&](const OptimizerGroup& group) {
    return std::any_of(group.patterns.begin(), group.patterns.end(),
                       [&](const std::string& pattern) { return matches(pattern, record.name); });
  });
  return *found;
}

double Optimizer::weight_decay(const layout::Param& record) const {
  if (const auto& own = of(record).weight_decay) return *own;
  return decays_all_ || record.decay ? weight_decay_ : 0.0;
}

bool Optimizer::is_one_slice(const nn::Weight& weight) const {
  const auto& records = weight.records();
  if (of(records.front()).rule->grain() != optimizer::Grain::element) return false;
  return std::all_of(records.begin() + 1, records.end(), [&](const layout::Param& record) {
    return &of(record) == &of(records.front()) && weight_decay(record) == weight_decay(records.front());
  });
}

optimizer::Update in_host_memory(const optimizer::Update& update) {
  const auto copy = [](const at::Tensor& x) { return x.defined() ? x.to(at::kCPU, x.scalar_type(), false, true) : x; };
  return {copy(update.count), copy(update.grad_scale), copy(update.skip)};
}

bool matches(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), FNM_NOESCAPE) == 0;
}

}  // namespace capstan::strategy
