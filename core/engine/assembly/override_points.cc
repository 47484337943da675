#include "assembly/override_points.h"

#include <capstan/base/text.h>
#include "plugin/guard.h"

#include <algorithm>
#include <utility>

namespace capstan::assembly {
namespace {

// A strategy's rule with its name around errors.
class GuardedRule : public strategy::OptimizerRule {
 public:
  GuardedRule(std::string plugin, std::unique_ptr<strategy::OptimizerRule> rule)
      : plugin_(std::move(plugin)), rule_(std::move(rule)) {}
  std::size_t states() const override { return rule_->states(); }
  std::string state_name(std::size_t i) const override { return rule_->state_name(i); }
  bool is_elementwise() const override { return rule_->is_elementwise(); }
  bool is_fused() const override { return rule_->is_fused(); }
  void apply(std::vector<strategy::Slice>& slices, const strategy::Update& update) override {
    plugin::guard(plugin_, "optimizer rule", [&] { rule_->apply(slices, update); });
  }

 private:
  std::string plugin_;
  std::unique_ptr<strategy::OptimizerRule> rule_;
};

}  // namespace

bool claims(const strategy::Strategy& strategy, const std::string& point) {
  strategy::Claims claims;
  strategy.claim(claims);
  const auto& list = claims.exclusive_claims();
  return std::find(list.begin(), list.end(), point) != list.end();
}

void claims_in_vain(const Made<strategy::Strategy>& made, const std::string& point, const std::string& method) {
  throw Error(
      cat("plugin '", made.name, "' claims the override point '", point, "', but its ", method, "() returns nothing"),
      cat("return an object from ", method, "(), or don't claim the override point"), made.where);
}

std::vector<layout::Axis> overridden_sums(const Strategies& strategies) {
  std::vector<layout::Axis> axes;
  for (const auto axis : {layout::Axis::dp, layout::Axis::replicate}) {
    const auto has_it = [&](const auto& made) {
      return claims(*made.object, strategy::gradient_reduction_point(axis));
    };
    if (std::any_of(strategies.begin(), strategies.end(), has_it)) axes.push_back(axis);
  }
  return axes;
}

bool has_evaluation_weights(const Strategies& strategies) {
  return std::any_of(strategies.begin(), strategies.end(),
                     [](const auto& made) { return claims(*made.object, strategy::evaluation_weights_point); });
}

strategy::AdamWOptions adamw_options(const setup::OptimizerOptions& options) {
  return {{options.betas[0], options.betas[1]}, options.eps, options.weight_decay, options.decay == "all"};
}

std::unique_ptr<strategy::OptimizerRule> optimizer_rule(const Strategies& strategies,
                                                        const strategy::AdamWOptions& options) {
  for (const auto& made : strategies) {
    if (!claims(*made.object, strategy::optimizer_rule_point)) continue;
    std::unique_ptr<strategy::OptimizerRule> rule;
    plugin::guard(made.name, "optimizer_rule", [&] { rule = made.object->optimizer_rule(options); });
    if (!rule) claims_in_vain(made, strategy::optimizer_rule_point, "optimizer_rule");
    return std::make_unique<GuardedRule>(made.name, std::move(rule));
  }
  return strategy::adamw(options);
}

}  // namespace capstan::assembly
